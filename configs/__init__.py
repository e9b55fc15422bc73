"""One config file per data set and paper; ``common.py`` explains every setting."""

"""The report of an evaluation: a folder of pages that opens from disk without a network."""

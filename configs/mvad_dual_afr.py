"""dualAFR on M-VAD: the earlier name of ``configs/dual_afr.py:data=mvad``."""

from configs import common

RENAMED_TO = 'dual_afr.py:data=mvad'
get_config = common.get_config_of(RENAMED_TO)

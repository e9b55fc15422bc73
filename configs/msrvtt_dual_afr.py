"""dualAFR on MSR-VTT: the earlier name of ``configs/dual_afr.py:data=msrvtt``."""

from configs import common

RENAMED_TO = 'dual_afr.py:data=msrvtt'
get_config = common.get_config_of(RENAMED_TO)

"""dualAFR on MSVD: the earlier name of ``configs/dual_afr.py:data=msvd``."""

from configs import common

RENAMED_TO = 'dual_afr.py:data=msvd'
get_config = common.get_config_of(RENAMED_TO)

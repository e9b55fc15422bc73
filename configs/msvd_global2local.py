"""Global2Local on MSVD: the earlier name of ``configs/global2local.py:data=msvd``."""

from configs import common

RENAMED_TO = 'global2local.py:data=msvd'
get_config = common.get_config_of(RENAMED_TO)

"""Global2Local on MSR-VTT: the earlier name of ``configs/global2local.py:data=msrvtt``."""

from configs import common

RENAMED_TO = 'global2local.py:data=msrvtt'
get_config = common.get_config_of(RENAMED_TO)

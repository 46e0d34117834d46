"""Connect agent programs to lossless, and disconnect them without a trace: `lcm install` and `lcm hosts`.

HOSTS       the hosts by name
prepare     the exact changes that connect a host
prepare_removal  those that disconnect it
carry_out   make the changes, with a backup and a record of what was written
"""

from lossless.hosts.install.hosts import HOSTS, Host, Place, Scope, host_named, this_place
from lossless.hosts.install.installer import Preparation, carry_out, prepare, prepare_removal
from lossless.hosts.install.overview import HostState, overview

__all__ = [
    "HOSTS",
    "Host",
    "HostState",
    "Place",
    "Preparation",
    "Scope",
    "carry_out",
    "host_named",
    "overview",
    "prepare",
    "prepare_removal",
    "this_place",
]

"""Why a document went no further although nothing is wrong with its text.

Such a document may succeed another day: `annotate --only-failed` tries it again.
"""

OUT_OF_MEMORY = "out_of_memory"  # an engine cannot fit it even alone
KILLS_PROCESS = "kills_process"  # the process at work on it dies, each time, of it alone
KILLS_TOGETHER = "kills_together"  # its unit kills it each time, none of its documents does
UNREACHABLE = "unreachable"  # whoever was at work on it was lost each time, but did not die

FAILURES = frozenset({OUT_OF_MEMORY, KILLS_PROCESS, KILLS_TOGETHER, UNREACHABLE})

"""Data as YAML, for the files that tests write."""

from typing import Any

import yaml

# The one in C is ten times as fast, which counts where every test writes policies.
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def to_yaml(data: Any) -> str:
    """The keys in their order."""
    return str(yaml.dump(data, Dumper=DUMPER, sort_keys=False, allow_unicode=True))

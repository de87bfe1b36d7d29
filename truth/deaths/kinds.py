"""All kinds of death. A new kind is a new row of one of these files."""

from deaths import of_activations, of_states  # noqa: F401
from deaths.kind import KINDS  # noqa: F401

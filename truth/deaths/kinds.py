"""All kinds of death. A new kind is a new row of one of these files."""

from deaths import of_activations, of_loops, of_states, of_the_device  # noqa: F401
from deaths.kind import KINDS  # noqa: F401

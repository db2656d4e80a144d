"""Finds declarations by their names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from epg_tf.core.errors import ConfigError
from epg_tf.figures.catalogue_epg import EPG
from epg_tf.figures.catalogue_metagenrl import METAGENRL
from epg_tf.figures.catalogue_v1 import EPG_V1
from epg_tf.figures.declaration import Declaration

CATALOGUE: Sequence[Declaration] = (*EPG, *EPG_V1, *METAGENRL)
"""All figures and tables, in the order of the papers."""


def declaration(name: str) -> Declaration:
    """Returns the declaration of a figure.

    Raises:
      ConfigError: There is none of that name.
    """
    for each in CATALOGUE:
        if each.name == name:
            return each
    names = [each.name for each in CATALOGUE]
    near = difflib.get_close_matches(name, names, 1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise ConfigError(f"name={name!r} is no figure; {guess}use one of {', '.join(names)}")

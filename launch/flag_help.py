"""Says what the flags of a command are: in groups for people, as words for shells."""

from __future__ import annotations

import re
import sys

from absl import flags

COMPLETION = r"""
# Completes commands and flags in bash and zsh: eval "$(epg-tf --completion)"
[ -n "$ZSH_VERSION" ] && autoload -U +X compinit bashcompinit && compinit && bashcompinit
_epg_tf() {
    local known typed=${COMP_WORDS[COMP_CWORD]}
    known=$(epg-tf $([ "$COMP_CWORD" -gt 1 ] && echo "${COMP_WORDS[1]}") --words 2>/dev/null)
    COMPREPLY=($(compgen -W "$known" -- "$typed"))
}
complete -o default -o nospace -F _epg_tf epg-tf"""
"""What a shell evaluates; `--words` prints commands, and behind a command its flags."""

_HEADINGS = {"run_flags": "the run", "config_flag": "settings", "command_line": "this process"}
"""Module of flags that commands share -> heading."""
_KIND = re.compile(r"(<.*>: )?(For|Of) ([^:]{3,40}): (.)")


def text() -> str:
    """Returns the flags of the command, those of its own first: what all uses have in common, then
    what is of one use. The help texts of the latter begin with it, "For losses of EPG: ...".
    """
    known, main = flags.FLAGS, sys.argv[0]
    kinds: dict[str, None] = {}
    for flag in known.get_key_flags_for_module(main):
        module = (known.find_module_defining_flag(flag.name) or "").rpartition(".")[2]
        heading = _HEADINGS.get(module, "flags")
        if kind := _KIND.match(flag.help):
            heading = f"{kind[2].lower()} {kind[3]}"
            flag.help = f"{kind[1] or ''}{kind[4].upper()}{flag.help[kind.end() :]}"
            kinds[heading] = None
        known.register_key_flag_for_module(heading, flag)
    order = ("flags", *kinds, *_HEADINGS.values())
    return "\n".join(filter(None, map(known.module_help, order)))


def words() -> str:
    """Returns the flags of the command as one begins to type them."""
    found = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
    return "\n".join(f"--{flag.name}{'' if flag.boolean else '='}" for flag in found)

"""`lcm completion`: the script with which a shell completes commands, options, settings and keys."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from lossless.cli.options import Plain
from lossless.cli.output import answer

_BASH: Final = r"""%(complete_func)s() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} words=() word current response completion type value i
    # Bash parts words at : and = too; a key is one word, so what stood together is put together again.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i)) && [[ $line != [[:space:]]* ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        line=${line#"${line%%%%[![:space:]]*}"}
        line=${line#"$word"}
    done
    current=${words[${#words[@]}-1]}
    response=$(COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete "$1")
    [[ $current == --*=* ]] && current=${current#*=}
    current=${current//\\/}
    while read -r completion; do
        type=${completion%%%%,*} value=${completion#*,}
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                # A key is what somebody once wrote: nothing in it may be carried out, inside of quotes either.
                case $current in
                    \"*)
                        [[ $value == *\!* ]] && continue
                        value=${value//\\/\\\\} value=${value//\"/\\\"} value=${value//\$/\\\$} value=${value//\`/\\\`}
                        ;;
                    \'*)
                        [[ $value == *\'* ]] && continue
                        ;;
                    *)
                        [[ $COMP_WORDBREAKS == *:* ]] && value=${value#"${current%%"${current##*:}"}"}
                        printf -v value %%q "$value"
                        ;;
                esac
                COMPREPLY+=("$value")
                ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """Click's own loses keys that have a colon or a space in them."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Bash 4.4 is ten years old; to ask which one there is takes longer than all the rest."""


class _Fish(FishComplete):
    """Click's own loses what follows a comma."""

    source_template = FishComplete.source_template.replace('split ","', 'split --max 1 ","')


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


@click.command(cls=Plain)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, settings and conversations in SHELL.

    \b
    bash:  echo 'eval "$(lcm completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(lcm completion zsh)"' >> ~/.zshrc
    fish:  lcm completion fish > ~/.config/fish/completions/lcm.fish

    Then open a new shell. In zsh, `compinit` has to come first. The script is printed as text also into a pipe.
    """
    script = _SHELLS[shell](ctx.find_root().command, {}, "lcm", "_LCM_COMPLETE").source()
    # A shell reads this through a pipe, and wants no JSON.
    ctx.meta.setdefault("lossless.cli.json", False)
    answer({"shell": shell, "script": script}, [script.rstrip("\n")])

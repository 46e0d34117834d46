"""`lcm completion`: print the script that completes commands, options and keys in a shell."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from lossless.cli.options import Plain
from lossless.cli.output import answer, get_option, set_option

_BASH: Final = r"""%(complete_func)s() {
    local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} words=() word current response completion type value i
    # Bash also splits words at : and =; a key is one word, so its parts are joined again.
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
                # A key is untrusted text: nothing in it may be executed, inside quotes either.
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
    """Bash completion that keeps keys with a colon or a space."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Skip the check: Bash 4.4 is ten years old, and asking for the version takes longest."""


class _Fish(FishComplete):
    """Fish completion that keeps text after a comma."""

    source_template = FishComplete.source_template.replace('split ","', 'split --max 1 ","')


_SHELLS: Final[dict[str, type[ShellComplete]]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


@click.command(cls=Plain, examples=("lcm completion bash", "lcm completion fish"))
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, settings and keys in SHELL.

    \b
    bash:  echo 'eval "$(lcm completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(lcm completion zsh)"' >> ~/.zshrc
    fish:  lcm completion fish > ~/.config/fish/completions/lcm.fish

    Then open a new shell. In zsh, `compinit` has to come first.
    """
    script = _SHELLS[shell](ctx.find_root().command, {}, "lcm", "_LCM_COMPLETE").source()
    # The shell that reads it inherits LCM_OUTPUT: only --json itself asks for anything but the script.
    set_option("json", bool(get_option("json")))
    answer({"shell": shell, "script": script}, [script.rstrip("\n")])

"""Describe how each programming language writes an import and a definition at the start of a line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_INDENT = r"\n([ \t]{0,24}+)"
_REST = r"[^\n]{0,160})"


@dataclass(frozen=True, slots=True)
class Language:
    """A language: its name, its file extensions, and two patterns anchored at the start of a line.

    An import captures the module; a definition captures its indentation and then the whole signature.
    """

    name: str
    extensions: tuple[str, ...]
    imports: re.Pattern[str]
    definitions: re.Pattern[str]


def _language(name: str, extensions: str, imports: str, definitions: str) -> Language:
    return Language(
        name, tuple(extensions.split()), re.compile(r"\n" + imports), re.compile(_INDENT + f"((?:{definitions}){_REST}")
    )


_JVM = r"(?:(?:public|private|protected|internal|static|final|abstract|sealed|open|data|case|override|suspend|async|virtual|partial|readonly|inline|default|synchronized|implicit|lazy) ){0,5}"
_C_TYPE = r"(?!return\b|else\b|typedef\b|goto\b|case\b|using\b)[A-Za-z_][\w:<>,*& \t]{0,80}?[ *&]"

TABLE = (
    _language(
        "Python",
        "py pyi pyw",
        r"[ \t]{0,8}+(?:from[ ]+(\S{1,80})[ ]+import|import[ ]+([\w.]{1,80}))",
        r"(?:async )?def \w|class \w",
    ),
    _language(
        "TypeScript",
        "ts tsx mts cts",
        r"(?:import\b[^\n]{0,200}?|[^\n]{0,80}?\brequire\()['\"]([^'\"\n]{1,80})",
        r"(?:export )?(?:default )?(?:declare )?(?:abstract )?(?:(?:async )?function\b|class \w|interface \w|type \w|enum \w|namespace \w|const \w{1,60}[^\n=]{0,80}= (?:async )?(?:\([^\n]{0,120}=>|function\b))",
    ),
    _language(
        "JavaScript",
        "js jsx mjs cjs",
        r"(?:import\b[^\n]{0,200}?|[^\n]{0,80}?\brequire\()['\"]([^'\"\n]{1,80})",
        r"(?:export )?(?:default )?(?:(?:async )?function\b|class \w|const \w{1,60} = (?:async )?(?:\([^\n]{0,120}=>|function\b)|module\.exports\b)",
    ),
    _language("Go", "go", r"(?:import |\t)(?:[\w.]{1,40} )?\"([^\"\n]{1,80})\"(?=\n)", r"func[ (]|type \w"),
    _language(
        "Rust",
        "rs",
        r"(?:pub )?use ([\w:]{1,80})",
        r"(?:pub(?:\([^\n)]{1,20}\))? )?(?:(?:const |async |unsafe ){0,3}fn \w|struct \w|enum \w|trait \w|impl\b|mod \w|macro_rules!)",
    ),
    _language(
        "Java",
        "java",
        r"import (?:static )?([\w.*]{1,80})",
        _JVM + r"(?:class|interface|enum|record|@interface) \w|(?:public|private|protected) [^\n;=]{1,100}\(",
    ),
    _language(
        "Kotlin",
        "kt kts",
        r"import ([\w.*]{1,80})",
        _JVM + r"(?:(?:enum |annotation )?class \w|interface \w|object \w|fun [\w<(])",
    ),
    _language(
        "Scala",
        "scala sc",
        r"import ([\w.{}*]{1,80})",
        _JVM + r"(?:class|trait|object|enum|def) \w",
    ),
    _language(
        "C#",
        "cs",
        r"using (?:static )?([\w.]{1,80});",
        r"namespace \w|"
        + _JVM
        + r"(?:class|interface|enum|struct|record) \w|(?:public|private|protected|internal) [^\n;=]{1,100}\(",
    ),
    _language(
        "C++",
        "cpp cc cxx hpp hh hxx",
        r"#[ \t]{0,4}include[ \t]{0,4}[<\"]([^>\"\n]{1,80})",
        r"(?:class|struct|enum|union|namespace) \w|template ?<|"
        + _C_TYPE
        + r"[\w:~]{1,80}+\([^\n;]{0,120}[{),]\s{0,4}(?=\n)",
    ),
    _language(
        "C",
        "c h m mm",
        r"#[ \t]{0,4}(?:include|import)[ \t]{0,4}[<\"]([^>\"\n]{1,80})",
        r"(?:typedef )?(?:struct|enum|union) \w{1,60} ?\{|@(?:interface|implementation|protocol) \w|[-+] ?\(\w|"
        + _C_TYPE
        + r"\w{1,80}+\([^\n;]{0,120}[{),]\s{0,4}(?=\n)",
    ),
    _language(
        "Ruby",
        "rb rake",
        r"require(?:_relative)?[ (]{1,2}['\"]([^'\"\n]{1,80})",
        r"(?:class|module|def) [\w.]",
    ),
    _language(
        "PHP",
        "php",
        r"(?:use ([\w\\]{1,80})|(?:require|include)(?:_once)?[ (]{1,3}[^'\"\n]{0,40}['\"]([^'\"\n]{1,80}))",
        r"(?:(?:abstract|final|public|private|protected|static|readonly) ){0,4}(?:function|class|interface|trait|enum) \w|namespace \w",
    ),
    _language(
        "shell",
        "sh bash zsh ksh fish",
        r"(?:source|\.) ([^\n;]{1,80})",
        r"function \w|[\w:.-]{1,60} ?\(\)",
    ),
    _language(
        "Swift",
        "swift",
        r"import ([\w.]{1,80})",
        r"(?:@\w{1,30} )?(?:(?:public|private|internal|fileprivate|open|final|static|override|mutating) ){0,4}(?:func|class|struct|enum|protocol|extension|actor) \w|init[(?]",
    ),
    _language("Lua", "lua", r"[^\n]{0,60}?\brequire[ (]{1,2}['\"]([^'\"\n]{1,80})", r"(?:local )?function \w"),
    _language("R", "r", r"(?:library|require)\(([\w.]{1,60})", r"[\w.]{1,60} ?(?:<-|=) ?function"),
    _language("Perl", "pl pm", r"use ([\w:]{1,80})", r"(?:sub|package) \w"),
    _language(
        "Elixir",
        "ex exs",
        r"[ \t]{0,4}(?:import|alias|use|require) ([\w.]{1,80})",
        r"(?:defmodule|defp?|defmacro) \w",
    ),
    _language("Dart", "dart", r"import ['\"]([^'\"\n]{1,80})", r"(?:abstract )?(?:class|mixin|enum|extension) \w"),
    _language(
        "CSS",
        "css scss less",
        r"@(?:import|use) ['\"]([^'\"\n]{1,80})",
        r"@(?:media|mixin|keyframes)\b|[.#][\w-]{1,60}[^\n;]{0,100}\{",
    ),
)

EXTENSIONS = {extension: language for language in TABLE for extension in language.extensions}

_INTERPRETERS = {"python": "py", "node": "js", "bash": "sh", "sh": "sh", "zsh": "sh", "ruby": "rb", "perl": "pl"}

_TELLING = {
    "py": r"\n(?:from [\w.]{1,80} import |import \w[\w.]{0,80}(?=\n| as )|[ \t]*(?:async )?def \w{1,80}\(|class \w{1,80}[(:]|[ \t]*@\w)|\n[ \t]+(?:self\.|return |elif )",
    "ts": r"\n(?:export )?(?:interface \w{1,60} [{e]|type \w{1,60} =|enum \w)|: (?:string|number|boolean|void)\b[;,)= ]",
    "js": r"\n[ \t]*(?:import [^\n]{1,120} from ['\"]|export |const \w|let \w|var \w{1,60} =|(?:async )?function\b[^\n]{0,80}\()|=> \{|\brequire\(['\"]",
    "go": r"\npackage \w{1,60}(?=\n)|\nfunc [\w(]|\ntype \w{1,60} (?:struct|interface)\b| := |\n\tif err != nil",
    "rs": r"\n[ \t]*(?:pub )?(?:fn \w|use \w{1,60}::|impl\b|struct \w|mod \w|let mut )|\n#!?\[\w",
    "java": r"\n(?:package [\w.]{1,100};|import (?:static )?(?:java|org|com)\.)|\n[ \t]*(?:public|private|protected) (?:static |final )*[\w<>\[\]]{1,60} \w",
    "cs": r"\nusing System|\nnamespace \w|\n[ \t]*(?:public|internal) (?:sealed |static |partial )*class \w|\{ get; ",
    "cpp": r"\n#include <\w{1,40}>|\n(?:template ?<|namespace \w|using namespace)|std::\w",
    "c": r"\n#(?:include [<\"][\w/]{1,60}\.h|define \w|ifdef |ifndef )|\n(?:static |void |int |char )[\w *]{1,60}\(",
    "rb": r"\nrequire(?:_relative)? ['\"]|\n[ \t]*(?:def \w[^\n:]{0,80}(?=\n)|module [A-Z]|end(?=\n)|attr_\w)",
    "kt": r"\n[ \t]*(?:fun \w|val \w{1,60}(?: =|:)|data class )|\nimport (?:kotlin|android)",
    "swift": r"\nimport (?:Foundation|UIKit|SwiftUI)|\n[ \t]*(?:func \w|let \w{1,60}(?: =|:)|guard let |@\w{1,30} var )",
}
_TELLTALES = {key: re.compile(pattern) for key, pattern in _TELLING.items()}
_SHEBANG = re.compile(r"\s*#![^\n]{0,80}?\b(python|node|bash|zsh|sh|ruby|perl)")


def recognise(head: str) -> Language | None:
    """Return the language of a text, if enough of its lines can be no other."""
    if shebang := _SHEBANG.match(head):
        return EXTENSIONS[_INTERPRETERS[shebang[1]]]
    if head.lstrip().startswith("<?php"):
        return EXTENSIONS["php"]
    scores = {key: len(pattern.findall(head)) for key, pattern in _TELLTALES.items()}
    best = max(scores, key=lambda key: scores[key])
    enough = max(3, 0.06 * (head.count("\n") - head.count("\n\n")))
    return EXTENSIONS[best] if scores[best] >= enough else None

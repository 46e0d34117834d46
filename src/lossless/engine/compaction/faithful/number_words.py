"""Numbers in words, in the languages of the summaries."""

from __future__ import annotations

import re

_ONES = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
    "dieciocho diecinueve",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
    "dix-neuf",
    "pt": "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezasseis dezassete dezoito "
    "dezanove",
    "ru": "ноль один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать тринадцать четырнадцать "
    "пятнадцать шестнадцать семнадцать восемнадцать девятнадцать",
}
_TENS_OF = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "fr": "vingt trente quarante cinquante soixante - quatre-vingt -",
    "pt": "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "ru": "двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто",
}
_ORDINALS = "third fourth fifth sixth seventh eighth ninth tenth"
_OTHERS = {
    "both": 2, "twice": 2, "second": 2, "pair": 2, "couple": 2, "две": 2, "двух": 2, "трёх": 3, "трех": 3, "dozen": 12,
    "hundred": 100, "hundert": 100, "cien": 100, "cent": 100, "cem": 100, "сто": 100, "none": 0, "no": 0, "not": 0,
    "duas": 2, "uma": 1, "une": 1, "una": 1, "одна": 1, "ein": 1, "eine": 1, "einen": 1, "beide": 2, "deux-tiers": 2,
}  # fmt: skip
TENS = {
    word: 10 * n
    for tens in _TENS_OF.values()
    for n, word in enumerate(tens.split(), 2)
    if word != "-" and "-" not in word
}
_GERMAN = {
    f"{'ein' if ones == 'eins' else ones}und{tens}": 10 * t + o
    for t, tens in enumerate(_TENS_OF["de"].split(), 2)
    for o, ones in enumerate(_ONES["de"].split()[1:10], 1)
}
_SPANISH = {f"veinti{ones}": 20 + n for n, ones in enumerate(_ONES["es"].split()[1:10], 1)}
_SPANISH |= {"veintidós": 22, "veintitrés": 23, "veintiséis": 26, "veintiún": 21}
WORDS: dict[str, int] = {
    **{word: n for language in reversed(_ONES) for n, word in enumerate(_ONES[language].split()) if "-" not in word},
    **{word: n for n, word in enumerate(_ORDINALS.split(), 3)},
    **TENS,
    **_GERMAN,
    **_SPANISH,
    **_OTHERS,
}
IDLE = {*_OTHERS, "one", "eins", "один", "un", "uno", "um", "elf", "once", "neuf", "sept", "sieben", "null", "acht"}
"""Words that count in a source, but say too little in a summary to be held against it."""
IDLE -= {"dozen", "hundred", "hundert"}
_SMALL = "|".join(sorted({word for text in _ONES.values() for word in text.split()[1:]}, key=len, reverse=True))
_TWO = re.compile(rf"\b(quatre-vingt|{'|'.join(TENS)})s?(?:[- ]|\s(?:y|e|et)\s|-et-)({_SMALL})\b")
_DIGITS = "零一二三四五六七八九"
_SIGNS = re.compile(r"[零〇一二两三四五六七八九十百千]+(?![万億亿])")
_SCALES = {"十": 10, "百": 100, "千": 1_000}


def in_two_words(text: str) -> list[tuple[str, int, int]]:
    """Return numbers of tens and ones in a lower-case text: the words, the value and the place."""
    if not any(tens in text for tens in TENS):
        return []
    return [
        (found[0], (80 if "-" in found[1] else TENS[found[1]]) + _ones(found[2]), found.start())
        for found in _TWO.finditer(text)
    ]


def _ones(word: str) -> int:
    if "-" in word:
        return 10 + WORDS[word.partition("-")[2]]
    return WORDS[word]


def in_signs(text: str) -> list[tuple[str, int, int]]:
    """Return the numbers in Chinese signs: the signs, the value and the place."""
    return [(found[0], _value(found[0]), found.start()) for found in _SIGNS.finditer(text)]


def _value(signs: str) -> int:
    total, digit = 0, None
    for sign in signs[:12]:
        if sign in _SCALES:
            total += (1 if digit is None else digit) * _SCALES[sign]
            digit = None
        else:
            digit = 10 * (digit or 0) + (2 if sign == "两" else 0 if sign == "〇" else _DIGITS.index(sign))
    return total + (digit or 0)

"""Names of people in Chinese and Japanese texts, where no capital marks them.

Only a name that looks like one of the source, with one sign exchanged, is held against a summary: a family name with
another given name beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lossless.engine.compaction.faithful.claim import Claim, Judged

_CHINESE = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许邓韩冯曹彭曾肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖石金韦贾"
    "夏付方邹熊白孟秦邱侯江尹薛闫段雷龙史陶贺毛郝顾龚邵万覃武钱戴严莫孔向常汤施張劉陳楊黃趙吳孫馬鄭謝許鄧韓馮葉蘇呂盧鍾譚陸顧龔錢戴嚴湯"
)
_JAPANESE = (
    "佐藤 鈴木 高橋 田中 伊藤 渡辺 渡邊 山本 中村 小林 加藤 吉田 山田 佐々木 山口 松本 井上 木村 斎藤 斉藤 清水 山崎 阿部 池田 橋本 "
    "山下 石川 中島 前田 藤田 小川 後藤 岡田 長谷川 村上 近藤 石井 坂本 遠藤 青木 藤井 西村 福田 太田 三浦 藤原 岡本 松田 中川 中野 "
    "原田 小野 田村 竹内 金子 和田 中山 石田 上田 森田 小島 柴田 原口 宮崎 酒井 工藤 横山 宮本 内田 高木 安藤 谷口 大野 丸山 今井 "
    "高田 藤本 武田 村田 上野 杉山 増田 平野 大塚 千葉 久保 松井 小山 岩崎 桜井 野口 松尾 野村 木下 菊地 佐野 大西 杉本 新井 浜田 "
    "市川 古川 水野 小松 島田 山内 西田 菊池 西川 五十嵐 北村 安田 中田 川口 平田 川崎 飯田 吉川 本田 久保田 沢田 辻本 関口 林田 森川 "
    "池上 岡部 片山 川村 河野 栗原 黒田 桑原 児玉 榊原 篠原 白石 杉浦 須藤 関根 田口 高野 土屋 永井 永田 中西 成田 西山 野田 服部 早川 "
    "樋口 平井 広瀬 福島 星野 堀内 本間 牧野 松岡 松下 三宅 村井 望月 森本 矢野 山中 吉村"
)
_HAN = r"\u3400-\u9fff々"
_TITLES = re.compile(r"(?:様|氏|君|先生|部長|課長|社長|店長|係長|主任|専務|会長|県|市|区|町|村|駅|店|家)+$")
# What follows a name: a sign, or a word that people do something with.
_AFTER = r"(?=$|[^\u3400-\u9fff々]|[的说是在负来要把和与及为对将会已给让请去做写提确表问答应同管签审代被說負來與為對將會請寫問應簽審])"
_IN_CHINESE = re.compile(rf"[{_CHINESE}][{_HAN}]{{2}}{_AFTER}")
_IN_JAPANESE = re.compile(
    rf"(?<![{_HAN}])({'|'.join(sorted(_JAPANESE.split(), key=len, reverse=True))})([{_HAN}]{{1,4}})"
)


def read_names(text: str, source: str) -> Iterator[Judged]:
    """Yield the names of a summary that resemble one of the source, and whether they are the same."""
    for found in _IN_JAPANESE.finditer(text):
        given = _TITLES.sub("", found[2])
        if given and found[1] in source:
            name = found[1] + given
            known = name in source or not re.search(rf"{found[1]}[{_HAN}]{{{len(given)}}}(?![{_HAN}])", source)
            yield Claim("name", name), known, found.start()
    for found in _IN_CHINESE.finditer(text):
        name = found[0]
        if name in source:
            yield Claim("name", name), True, found.start()
        elif _is_exchanged(name, source):
            yield Claim("name", name), False, found.start()


def _is_exchanged(name: str, source: str) -> bool:
    """Return True if the source has this name with another last or middle sign, and nothing else like it."""
    family, middle, last = name[0], name[1], name[2]
    for beginning, form in (
        (family + middle, rf"{family}{middle}([{_HAN}]){_AFTER}"),
        (family, rf"{family}([{_HAN}]){last}{_AFTER}"),
    ):
        others = {found[1] for found in re.finditer(form, source)}
        if len(others) == 1 and (
            beginning == family or source.count(beginning) == source.count(beginning + min(others))
        ):
            return True
    return False

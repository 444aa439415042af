"""From a label of a language classifier to the FLORES code that NLLB knows.

Classifiers have two styles of labels: FLORES codes as they are (lid218e: "fra_Latn"), and ISO codes
(lid.176: "fr"), of whose 176 languages 117 are among the 202 of NLLB.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence

_FLORES = re.compile("[a-z]{3}_[A-Z][a-z]{3}")

# "als" is left out: as a label it is Alemannic German, as a code (als_Latn) Tosk Albanian.
_CODES = """
af afr_Latn  am amh_Ethi  ar arb_Arab  arz arz_Arab  as asm_Beng  ast ast_Latn
az azj_Latn  azb azb_Arab  ba bak_Cyrl  be bel_Cyrl  bg bul_Cyrl  bh bho_Deva
bn ben_Beng  bo bod_Tibt  bs bos_Latn  ca cat_Latn  ceb ceb_Latn  ckb ckb_Arab
cs ces_Latn  cy cym_Latn  da dan_Latn  de deu_Latn  el ell_Grek  en eng_Latn
eo epo_Latn  es spa_Latn  et est_Latn  eu eus_Latn  fa pes_Arab  fi fin_Latn
fr fra_Latn  ga gle_Latn  gd gla_Latn  gl glg_Latn  gn grn_Latn  gu guj_Gujr
he heb_Hebr  hi hin_Deva  hr hrv_Latn  ht hat_Latn  hu hun_Latn  hy hye_Armn
id ind_Latn  ilo ilo_Latn  is isl_Latn  it ita_Latn  ja jpn_Jpan  jv jav_Latn
ka kat_Geor  kk kaz_Cyrl  km khm_Khmr  kn kan_Knda  ko kor_Hang  ku kmr_Latn
ky kir_Cyrl  lb ltz_Latn  li lim_Latn  lmo lmo_Latn  lo lao_Laoo  lt lit_Latn
lv lvs_Latn  mai mai_Deva  mg plt_Latn  min min_Latn  mk mkd_Cyrl  ml mal_Mlym
mn khk_Cyrl  mr mar_Deva  ms zsm_Latn  mt mlt_Latn  my mya_Mymr  ne npi_Deva
nl nld_Latn  nn nno_Latn  no nob_Latn  oc oci_Latn  or ory_Orya  pa pan_Guru
pl pol_Latn  ps pbt_Arab  pt por_Latn  qu quy_Latn  ro ron_Latn  ru rus_Cyrl
sa san_Deva  sc srd_Latn  scn scn_Latn  sd snd_Arab  sh hrv_Latn  si sin_Sinh
sk slk_Latn  sl slv_Latn  so som_Latn  sq als_Latn  sr srp_Cyrl  su sun_Latn
sv swe_Latn  sw swh_Latn  ta tam_Taml  te tel_Telu  tg tgk_Cyrl  th tha_Thai
tk tuk_Latn  tl tgl_Latn  tr tur_Latn  tt tat_Cyrl  ug uig_Arab  uk ukr_Cyrl
ur urd_Arab  uz uzn_Latn  vec vec_Latn  vi vie_Latn  war war_Latn  yi ydd_Hebr
yo yor_Latn  yue yue_Hant  zh zho_Hans
"""
_ISO_TO_FLORES = dict(zip(_CODES.split()[::2], _CODES.split()[1::2], strict=True))

# Characters of one of the two scripts alone, the same words in the same order: country, meeting,
# learn, come, ... Words that are written alike, or whose character has a second life in the other
# script, say nothing.
_SIMPLIFIED = frozenset(
    "\u56fd\u4f1a\u5b66\u6765\u4e2a\u65f6\u4eec\u8fd9\u4e3a\u8bf4\u5bf9\u53d1\u7ecf\u52a8"
    "\u8fdb\u79cd\u8fc7\u8fd8\u6ca1\u5173\u95ee\u95f4\u5f00\u4e66\u89c1\u7535\u957f\u4e1c"
    "\u8f66\u9a6c\u95e8\u8bed\u8bdd\u8bf7\u8ba9\u8ba4\u8bc6\u4e49\u52a1\u4e1a\u7ea7\u4ea7"
    "\u5934\u5b9e\u56fe\u9645\u6807\u7f51\u534e\u533b\u62a5\u573a\u5458\u672f\u7ebf\u73b0"
    "\u53d8\u4e13\u8282\u5355"
)
_TRADITIONAL = frozenset(
    "\u570b\u6703\u5b78\u4f86\u500b\u6642\u5011\u9019\u70ba\u8aaa\u5c0d\u767c\u7d93\u52d5"
    "\u9032\u7a2e\u904e\u9084\u6c92\u95dc\u554f\u9593\u958b\u66f8\u898b\u96fb\u9577\u6771"
    "\u8eca\u99ac\u9580\u8a9e\u8a71\u8acb\u8b93\u8a8d\u8b58\u7fa9\u52d9\u696d\u7d1a\u7522"
    "\u982d\u5be6\u5716\u969b\u6a19\u7db2\u83ef\u91ab\u5831\u5834\u54e1\u8853\u7dda\u73fe"
    "\u8b8a\u5c08\u7bc0\u55ae"
)


def flores_code(labels: Sequence[str], text: str, known: Collection[str]) -> str | None:
    """The code of the first of `labels` that is one of `known`; None if none is.

    Where one label stands for two scripts, the characters of `text` decide.
    """
    for label in labels:
        code = label if _FLORES.fullmatch(label) else _from_iso(label, text)
        if code is not None and code in known:
            return code
    return None


def _from_iso(label: str, text: str) -> str | None:
    if label == "zh":
        traditional = sum(character in _TRADITIONAL for character in text)
        simplified = sum(character in _SIMPLIFIED for character in text)
        return "zho_Hant" if traditional > simplified else "zho_Hans"
    if label in ("sr", "sh"):  # Serbian in Latin letters is closest to NLLB's Croatian
        return (
            "srp_Cyrl"
            if _num_letters(text, "CYRILLIC") > _num_letters(text, "LATIN")
            else "hrv_Latn"
        )
    return _ISO_TO_FLORES.get(label)


def _num_letters(text: str, script: str) -> int:
    return sum(unicodedata.name(character, "").startswith(script) for character in text)

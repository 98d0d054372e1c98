"""The dialect `dlti`, as far as imported modules bring it along."""

from xdsl.ir import Attribute, Dialect

from .llvm.imported import DLTI_ATTRS

_attributes: list[type[Attribute]] = [*DLTI_ATTRS]
Dlti = Dialect("dlti", [], _attributes)

"""Marks a PDF/A-3 that carries `factur-x.xml` as Factur-X in its XMP metadata, as an incremental update: same bytes each time."""

from __future__ import annotations

import re
from typing import Final

from billing.errors import DocumentFailed

_SPACE: Final = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"
_PROPERTIES: Final = {
    "DocumentFileName": ("factur-x.xml", "The name of the embedded XML document"),
    "DocumentType": ("INVOICE", "The type of the hybrid document in capital letters, e.g. INVOICE or ORDER"),
    "Version": ("1.0", "The actual version of the standard applying to the embedded XML document"),
    "ConformanceLevel": ("EN 16931", "The conformance level of the embedded XML document"),
}
_SCHEMAS: Final = b"<pdfaExtension:schemas><rdf:Bag>"
_METADATA: Final = re.compile(
    rb"(\d+) 0 obj\n<</Length \d+/Type/Metadata/Subtype/XML>>\nstream\n(<\?xpacket begin.*?<\?xpacket end=\"r\"\?>)\nendstream",
    re.DOTALL,
)
_TRAILER: Final = re.compile(rb"trailer\n<<(.*?)>>\nstartxref\n(\d+)\n%%EOF\s*$", re.DOTALL)


def mark_factur_x(pdf: bytes) -> bytes:
    """The PDF with the Factur-X properties and their PDF/A extension schema; DocumentFailed when it is not from typst."""
    metadata, trailer = _METADATA.search(pdf), _TRAILER.search(pdf)
    if not metadata or not trailer or metadata[2].count(_SCHEMAS) != 1:
        raise DocumentFailed("could not mark PDF as Factur-X: its metadata, or its end, is not as typst writes it")
    xmp = metadata[2].replace(_SCHEMAS, _SCHEMAS + _schema()).replace(b"</rdf:RDF>", _values() + b"</rdf:RDF>")
    number, body = int(metadata[1]), pdf if pdf.endswith(b"\n") else pdf + b"\n"
    update = b"%d 0 obj\n<</Length %d/Type/Metadata/Subtype/XML>>\nstream\n%b\nendstream\nendobj\n" % (
        number,
        len(xmp),
        xmp,
    )
    table = b"xref\n%d 1\n%010d 00000 n \n" % (number, len(body))
    end = b"trailer\n<<%b/Prev %b>>\nstartxref\n%d\n%%%%EOF\n" % (trailer[1], trailer[2], len(body) + len(update))
    return body + update + table + end


def _schema() -> bytes:
    rows = "".join(
        f'<rdf:li rdf:parseType="Resource"><pdfaProperty:name>{name}</pdfaProperty:name>'
        f"<pdfaProperty:valueType>Text</pdfaProperty:valueType><pdfaProperty:category>external</pdfaProperty:category>"
        f"<pdfaProperty:description>{meaning}</pdfaProperty:description></rdf:li>"
        for name, (_, meaning) in _PROPERTIES.items()
    )
    return (
        '<rdf:li rdf:parseType="Resource"><pdfaSchema:schema>Factur-X PDFA Extension Schema</pdfaSchema:schema>'
        f"<pdfaSchema:namespaceURI>{_SPACE}</pdfaSchema:namespaceURI><pdfaSchema:prefix>fx</pdfaSchema:prefix>"
        f"<pdfaSchema:property><rdf:Seq>{rows}</rdf:Seq></pdfaSchema:property></rdf:li>"
    ).encode()


def _values() -> bytes:
    rows = "".join(f"<fx:{name}>{value}</fx:{name}>" for name, (value, _) in _PROPERTIES.items())
    return f'<rdf:Description rdf:about="" xmlns:fx="{_SPACE}">{rows}</rdf:Description>'.encode()

"""Reads the certificate and the key with which the gateway speaks TLS."""

import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from toolscript.errors import ConfigError


def read_certificate(file: Path | None, key_file: Path | None) -> tuple[str, str]:
    """Returns the gateway's own certificate in PEM, and a name that it has.

    Args:
        file: Has the certificate, and may have those of its issuers.
        key_file: Has the private key.

    Raises:
        ConfigError: One of the two is missing, cannot be read, or does not fit the other.
    """
    if file is None or key_file is None:
        raise ConfigError("--tls-cert and --tls-key need each other; give the files of both")
    content, key_content = _read(file, "--tls-cert"), _read(key_file, "--tls-key")
    try:
        certificate = x509.load_pem_x509_certificates(content)[0]
        names = _names(certificate)
    except ValueError:
        raise ConfigError(f"--tls-cert {file} has no certificate in PEM") from None
    try:
        key = serialization.load_pem_private_key(key_content, None)
    except TypeError:
        raise ConfigError(
            f"--tls-key {key_file} has a passphrase; give the key without one, as from: "
            "openssl pkey"
        ) from None
    except ValueError:
        raise ConfigError(f"--tls-key {key_file} has no private key in PEM") from None
    if key.public_key() != certificate.public_key():
        raise ConfigError(f"--tls-key {key_file} is not the key of --tls-cert {file}")
    if not names:
        raise ConfigError(f"--tls-cert {file} names no host (as its subjectAltName)")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, key_file)
    except ssl.SSLError as error:
        raise ConfigError(f"--tls-cert {file} cannot be used: {error.reason}") from None
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    return pem, names[0].replace("*", "gateway")


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def _read(file: Path, option: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} {file} cannot be read: {error.strerror or error}") from None

"""Reads the certificate and the key with which the gateway speaks TLS."""

import ssl

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from toolscript.config.settings import ServerSettings
from toolscript.errors import ConfigError


def read_certificate(server: ServerSettings) -> str:
    """Returns the gateway's own certificate in PEM; raises `ConfigError` for an unusable pair."""
    file, key_file = server.tls_cert, server.tls_key
    if file is None or key_file is None:
        raise ConfigError("--tls-cert and --tls-key need each other; give the files of both")
    option = f"--tls-cert {file}"
    try:
        certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
        option = f"--tls-key {key_file}"
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        if key.public_key() != certificate.public_key():
            raise ConfigError(f"{option} is not the key of --tls-cert {file}")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, key_file)
    except TypeError:
        raise ConfigError(f"{option} has a passphrase; remove it with: openssl pkey") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not in PEM, or damaged"
        raise ConfigError(f"{option} cannot be used: {why}") from None
    return certificate.public_bytes(serialization.Encoding.PEM).decode()

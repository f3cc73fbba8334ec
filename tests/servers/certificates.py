"""Makes certificates for servers of a test."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass
class Pair:
    """A certificate, its key, and the files of both."""

    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey
    file: Path
    key: Path


def make_pair(folder: Path, name: str, *hosts: str, issuer: Pair | None = None) -> Pair:
    """Returns a certificate for these hosts, by an issuer; without one it is its own issuer.

    Args:
        folder: The folder of the files.
        name: The name of the subject, and of the files.
        hosts: Names of hosts, and addresses.
        issuer: Signs the certificate.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signer = issuer.private_key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if hosts:
        names = [
            x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            for host in hosts
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(signer, hashes.SHA256())
    pair = Pair(certificate, key, folder / f"{name}.pem", folder / f"{name}.key")
    pair.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(key_bytes(key))
    return pair


def key_bytes(key: ec.EllipticCurvePrivateKey, passphrase: bytes = b"") -> bytes:
    """Returns a private key in PEM, encrypted if there is a passphrase."""
    none, best = serialization.NoEncryption(), serialization.BestAvailableEncryption
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        best(passphrase) if passphrase else none,
    )

"""KMS keys of the spec ECC_NIST_EDWARDS25519, for MessageType RAW: LocalStack
4.14 has them in its API model and not in its key store."""

import os

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from localstack.aws.api.kms import KMSInvalidSignatureException
from localstack.services.kms import models

SPEC = "ECC_NIST_EDWARDS25519"
ALGORITHM = "ED25519_SHA_512"
MOST = 4096  # bytes of a RAW message, as AWS


def _check(message: bytes, message_type: str | None, algorithm: str) -> None:
    if algorithm != ALGORITHM or message_type not in (None, "RAW"):
        raise models.ValidationException(f"only {ALGORITHM} with MessageType RAW is offered here")
    if not 1 <= len(message) <= MOST:
        raise models.ValidationException(f"the message must have 1 to {MOST} bytes")


def install() -> None:
    make, assert_valid = models.KmsCryptoKey.__init__, models.KmsCryptoKey.assert_valid
    sign, verify = models.KmsKey.sign, models.KmsKey.verify
    populate = models.KmsKey._populate_signing_algorithms

    def make_key(self, key_spec, key_material=None):
        if key_spec != SPEC:
            return make(self, key_spec, key_material)
        self.pending_key_material = None
        self.key_material = key_material or os.urandom(32)
        self.key_spec = key_spec
        if key_material:
            key = serialization.load_der_private_key(key_material, password=None)
        else:
            key = ed25519.Ed25519PrivateKey.generate()
        self._serialize_key(key)

    def assert_spec(key_spec):
        if key_spec != SPEC:
            assert_valid(key_spec)

    def sign_raw(self, data, message_type, signing_algorithm):
        if self.metadata.get("KeySpec") != SPEC:
            return sign(self, data, message_type, signing_algorithm)
        _check(data, message_type, signing_algorithm)
        return self.crypto_key.key.sign(data)

    def verify_raw(self, data, message_type, signing_algorithm, signature):
        if self.metadata.get("KeySpec") != SPEC:
            return verify(self, data, message_type, signing_algorithm, signature)
        _check(data, message_type, signing_algorithm)
        try:
            self.crypto_key.key.public_key().verify(signature, data)
        except InvalidSignature:
            raise KMSInvalidSignatureException() from None
        return True

    def populate_algorithms(self, key_usage, key_spec):
        if key_spec == SPEC and key_usage == "SIGN_VERIFY":
            self.metadata["SigningAlgorithms"] = [ALGORITHM]
        else:
            populate(self, key_usage, key_spec)

    models.KmsCryptoKey.__init__ = make_key
    models.KmsCryptoKey.assert_valid = staticmethod(assert_spec)
    models.KmsKey.sign, models.KmsKey.verify = sign_raw, verify_raw
    models.KmsKey._populate_signing_algorithms = populate_algorithms

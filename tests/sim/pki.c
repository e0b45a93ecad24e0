// SPDX-License-Identifier: Apache-2.0
// Certificates and keys of the simulation: fixed, so that a seed's run is the same everywhere. They
// protect nothing: nobody else may trust this CA.
#include "tests/sim/game.h"

static const char ca_crt[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBlzCCAT2gAwIBAgIUUhvpcssOojD+QBdwl3wQw+xN2GQwCgYIKoZIzj0EAwIw\n"
    "GDEWMBQGA1UEAwwNc2ltdWxhdGlvbiBDQTAgFw0yNjEyMDExMzIyMjBaGA8yMDU3\n"
    "MDExMjEzMjIyMFowGDEWMBQGA1UEAwwNc2ltdWxhdGlvbiBDQTBZMBMGByqGSM49\n"
    "AgEGCCqGSM49AwEHA0IABFyaQBg+mBkdMD6u+YY9w3KM5M7Dkl8PzDuZwbtb5yir\n"
    "/exjYURR2Q0NlS9+fsQEFcg2+FMxp8sAL2SYLRDpLE+jYzBhMB0GA1UdDgQWBBTx\n"
    "FwsYF9JqcMu91qpnHETt8RoHTjAfBgNVHSMEGDAWgBTxFwsYF9JqcMu91qpnHETt\n"
    "8RoHTjAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIBBjAKBggqhkjOPQQD\n"
    "AgNIADBFAiB342VSmol85c2I/ebDbgQyJZqT9uVCrgAYVhz3Rqq3igIhAPaXKg8t\n"
    "CBHprWROPgZRwQYOZBml0sqxw62+xRpakHyn\n"
    "-----END CERTIFICATE-----\n";
static const char server_crt[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBzDCCAXOgAwIBAgIUYDm1nEDI94X44LUgjnxo3+aHieswCgYIKoZIzj0EAwIw\n"
    "GDEWMBQGA1UEAwwNc2ltdWxhdGlvbiBDQTAgFw0yNjEyMDExMzIyMjBaGA8yMDU2\n"
    "MTEyMzEzMjIyMFowHDEaMBgGA1UEAwwRc2ltdWxhdGlvbiBzZXJ2ZXIwWTATBgcq\n"
    "hkjOPQIBBggqhkjOPQMBBwNCAARdw/m+9JrAyns+byYJtPHmlEpQ59ny09cYLM9W\n"
    "xw3xE3GZsRZDOcYWQ/HBEbDWVqLdf2Snbpy+9KUp8M6m6+LBo4GUMIGRMAwGA1Ud\n"
    "EwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMBMBwG\n"
    "A1UdEQQVMBOCEWJyb2tlci5zaW11bGF0aW9uMB0GA1UdDgQWBBRtt4uvsQZpzqRH\n"
    "JYq0Qe1aSK+ihDAfBgNVHSMEGDAWgBTxFwsYF9JqcMu91qpnHETt8RoHTjAKBggq\n"
    "hkjOPQQDAgNHADBEAiBhIdnUvqBM/zF3jBoeoA2GQv2B45YD7YZHuXKV5a4s5QIg\n"
    "ccTmaFwBhFHUu2jxAwN//lxiIjnYnoLgjPIS1taUUAI=\n"
    "-----END CERTIFICATE-----\n";
static const char server_key[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MHcCAQEEIFoVZwaOA66YQSbsEzN/PQXhQttY3QJPM8LEY8x2We4FoAoGCCqGSM49\n"
    "AwEHoUQDQgAEXcP5vvSawMp7Pm8mCbTx5pRKUOfZ8tPXGCzPVscN8RNxmbEWQznG\n"
    "FkPxwRGw1lai3X9kp26cvvSlKfDOpuviwQ==\n"
    "-----END EC PRIVATE KEY-----\n";
static const char client_crt[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBzDCCAXOgAwIBAgIUYDm1nEDI94X44LUgjnxo3+aHiewwCgYIKoZIzj0EAwIw\n"
    "GDEWMBQGA1UEAwwNc2ltdWxhdGlvbiBDQTAgFw0yNjEyMDExMzIyMjBaGA8yMDU2\n"
    "MTEyMzEzMjIyMFowHDEaMBgGA1UEAwwRc2ltdWxhdGlvbiBjbGllbnQwWTATBgcq\n"
    "hkjOPQIBBggqhkjOPQMBBwNCAARdPdXzy0BHi+63qMZaBXB5Gs1b2QVOC3K/fUA2\n"
    "0VPHUp31oEk8ii7wo1b05LNhRiQP4IqFnE4NemQ4mNhwKVJ6o4GUMIGRMAwGA1Ud\n"
    "EwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMBMGA1UdJQQMMAoGCCsGAQUFBwMCMBwG\n"
    "A1UdEQQVMBOCEWJyb2tlci5zaW11bGF0aW9uMB0GA1UdDgQWBBQ7le5rcczMr0A6\n"
    "NoZPebJ/9pNaHjAfBgNVHSMEGDAWgBTxFwsYF9JqcMu91qpnHETt8RoHTjAKBggq\n"
    "hkjOPQQDAgNHADBEAiAQESkMhL8hOU6xVP3c+N6wRnzhaUVTa8JvUzq77DanAQIg\n"
    "XvQgvMEmit/CXAeQ5aKu0LhU+NjP29CUzVVc/C/K8p8=\n"
    "-----END CERTIFICATE-----\n";
static const char client_key[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MHcCAQEEIL0toIvdwrQq2irlsCKweTr+gN+jdkUEQJqE+4bUqDaYoAoGCCqGSM49\n"
    "AwEHoUQDQgAEXT3V88tAR4vut6jGWgVweRrNW9kFTgtyv31ANtFTx1Kd9aBJPIou\n"
    "8KNW9OSzYUYkD+CKhZxODXpkOJjYcClSeg==\n"
    "-----END EC PRIVATE KEY-----\n";

const struct pki pki = {.ca = {(const u8 *)ca_crt, sizeof ca_crt - 1},
                        .server_certificate = {(const u8 *)server_crt, sizeof server_crt - 1},
                        .server_key = {(const u8 *)server_key, sizeof server_key - 1},
                        .client_certificate = {(const u8 *)client_crt, sizeof client_crt - 1},
                        .client_key = {(const u8 *)client_key, sizeof client_key - 1}};

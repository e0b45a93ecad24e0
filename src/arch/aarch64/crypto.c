// SPDX-License-Identifier: Apache-2.0
// What BoringSSL wants from a platform on aarch64: which of the cryptographic instructions there
// are (arm_arch.h of the library names the bits), read from ID_AA64ISAR0_EL1. The name and the
// variable are the library's. Called by CRYPTO_library_init on the boot core.
#include "arch/cpu.h"

#define ARMV7_NEON (1u << 0)
#define ARMV8_AES (1u << 2)
#define ARMV8_SHA1 (1u << 3)
#define ARMV8_SHA256 (1u << 4)
#define ARMV8_PMULL (1u << 5)
#define ARMV8_SHA512 (1u << 6)

#pragma GCC visibility push(hidden)
extern u32 OPENSSL_armcap_P;
void OPENSSL_cpuid_setup(void);
#pragma GCC visibility pop

void OPENSSL_cpuid_setup(void) {
  u64 features = CPU_READ("id_aa64isar0_el1");
  u32 aes = cpu_field(features, 4);
  u32 sha2 = cpu_field(features, 12);
  OPENSSL_armcap_P = ARMV7_NEON | (aes >= 1 ? ARMV8_AES : 0) | (aes >= 2 ? ARMV8_PMULL : 0) |
                     (cpu_field(features, 8) >= 1 ? ARMV8_SHA1 : 0) |
                     (sha2 >= 1 ? ARMV8_SHA256 : 0) | (sha2 >= 2 ? ARMV8_SHA512 : 0);
}

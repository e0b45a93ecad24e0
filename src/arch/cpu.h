// SPDX-License-Identifier: Apache-2.0
// Instructions that C has no word for. Both families supply the same names (arch/x86_64/cpu.h,
// arch/aarch64/cpu.h); what only one has (MSRs, system registers) is used by its own folders alone.
//
//   cpu_in8 … cpu_out32     PCI's I/O space: instructions on x86, a window in memory on aarch64
//   cpu_config_*            PCI configuration by ports, where a machine has no ECAM: x86 only
//   cpu_mmio_read8 …        a device's register, one access of exactly this width, in program order
//                           with other registers and with memory that the device reads or writes
//   cpu_cycles, _ordered    a counter of constant frequency; _ordered: after all earlier loads
//   cpu_jitter              an instruction whose time varies; for gathering entropy
//   cpu_random_word         one hardware random word; false: there is no unit, or it had none
//   cpu_mul_div             a * b / c over 128 bits; the quotient must fit 64
//   cpu_set_local           where this core's CORE_LOCAL data lie: in `block`, zeroed, of
//                           CPU_LOCAL_LEN bytes, aligned to 64; before any of them is touched, and
//                           not in a function that touches one (it keeps the place)
//   cpu_mb, _rmb, _wmb      barriers between the processor and a device in memory
//   (virtio 1.2 2.7.13) cpu_relax               inside a loop that waits cpu_halt_forever never
//   returns CPU_ELF_RELATIVE        the one relocation type a static PIE of ours has CPU_LINK_BASE
//   where the image is linked; it runs elsewhere CPU_RETURN_BYTES        machine code of a return;
//   cpu_call: calls code (for a test of no-execute)
#pragma once
#if defined(__x86_64__)
#include "arch/x86_64/cpu.h"
#elif defined(__aarch64__)
#include "arch/aarch64/cpu.h"
#else
#error "no such processor"
#endif

// SPDX-License-Identifier: Apache-2.0
// Diagnostics: what this machine is and what it can do, instead of serving. One JSON document
// (docs/formats/diagnostics.md) with its SHA-256, and the same as text. Reads disks anywhere;
// writes only where no partition is, and only after WIPE was typed for that disk.
//
// Words of the command line: `diagnostics` chooses it, `echo` answers pings and UDP port 7 for a
// minute first, `off` powers off at the end, `quick` measures with fewer rounds.
#pragma once
#include "base/block.h"
#include "base/json.h"

// Ends the machine.
NORETURN void diagnose_main(void);

// --- What diagnose*.c share

#define DIAGNOSE_MEMORY (8u << 20)  // the disks' and the memory's measurements work in it
struct diagnose {
  struct json_out out;
  struct span work;   // DIAGNOSE_MEMORY, for devices
  struct span large;  // more than caches hold, where there is so much
  bool hosted;        // a process: devices are the host's
  u32 rounds;
  bool crypto_good, entropy_good, clock_good;
  u32 nics, nics_up, disks, disks_flush;
  u64 handshake_ns;
};
void diagnose_memory(struct diagnose *d);
void diagnose_crypto(struct diagnose *d);
void diagnose_disks(struct diagnose *d);
void diagnose_verdict(struct diagnose *d);
// The document as lines of text; `nodes`: room to read it.
void diagnose_text(struct bytes document, struct json_node *nodes, u32 count, struct writer *w);
// Waits for a line typed on a console; false: none came within `seconds`.
bool diagnose_read_line(char *out, u32 cap, u32 seconds);

// The longest run of the disk's bytes that belongs to nobody, in whole MiB: behind, before and
// between the partitions of a GPT, or of a disk whose first MiB is zeros all of it but its ends.
// False: there is none, or what is on the disk is not understood (*why). scratch: 2 MiB for the
// device.
struct diagnose_gap {
  u64 at, len;
};
bool diagnose_find_gap(struct block *b, struct span scratch, struct diagnose_gap *gap,
                       const char **why);
// One operation, waited for.
bool diagnose_io(struct block *b, enum block_kind kind, u64 at, u64 len, void *memory);

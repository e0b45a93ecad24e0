// SPDX-License-Identifier: Apache-2.0
// The hosted platform's own parts: options of the process, the TAP device, the bundle from a
// folder.
#pragma once
#include "plat/plat.h"

struct hosted_options {
  const char *tap;
  const char *config_dir;
  const char *disk;  // NULL: none
  u64 memory_mib;
  u64 seconds;  // 0 = until a signal
  bool check;
  u32 cores;
  bool diagnose;
};
extern struct hosted_options hosted;

// Opens the TAP, a queue for each core where it allows that; prints why not and exits 1.
void tap_open(const char *name);
int tap_fd(u32 core);      // what this core polls; -1: nothing
bool tap_sleep(u32 core);  // steer_sleep
// Packs the regular files of a folder into a ustar archive (mapped). Exits 1 with a
// message when the folder cannot be read.
struct bytes bundle_from_dir(const char *dir);
// The same, NULL with a message instead of an exit; and its memory back.
struct bytes bundle_try(const char *dir);
void bundle_release(struct bytes tar);

// A file or block device as a disk (base/block.h); it stays locked against other processes. NULL:
// it cannot be used, *why says so. The loop that uses it is woken by plat_wake(0).
struct block *hosted_disk_open(const char *path, const char **why);
// The same for a file that need not be there: an empty one is given a length. *fresh: so it was.
struct block *hosted_disk_make(const char *path, bool *fresh, const char **why);
// Only with nothing under way.
void hosted_disk_close(struct block *b);

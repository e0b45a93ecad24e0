// SPDX-License-Identifier: Apache-2.0
// What the broker writes to the disk, and what waits for it: the state of durable.c. Internal.
#pragma once
#include "store/store.h"

#define DURABLE_REMOVES 512u
#define DURABLE_REMOVE_LEN 12u

struct message;

// What is known only while a disk is read (restore.c).
struct restore {
  const struct store *store;
  struct message *message;  // of the PUBLISH that was applied last
  struct record_publish publish;
  u64 lsn;
  u8 *body;  // a block: what has come of a body of several records
  u32 body_len;
  u32 mask;
  u32 bucket[];
};

struct durable {
  struct store *store;  // NULL: live mode, nothing is recorded
  bool relaxed;         // no acknowledgement waits
  // The record that is being written: receivers are added as they are found.
  struct writer w;
  bool open;
  u8 kind;
  // The message that is being routed, and what goes into its record.
  struct message *message;
  bool keep;
  u16 inbound_id;
  u64 inbound, will_of;
  u64 last_lsn;  // of the last record
  u32 remove_len;
  u8 removes[DURABLE_REMOVES * DURABLE_REMOVE_LEN];
  u32 wait_head;  // sessions whose next message waits for the disk, by disk_next
};

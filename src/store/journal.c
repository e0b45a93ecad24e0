// SPDX-License-Identifier: Apache-2.0
// Where a record will lie is decided when it is appended (its checksum needs that): a batch takes
// what is left of the segment, or begins the next one when not even its first record fits.
// Replay follows the chain of segments from the oldest: sequence by sequence, each beginning with
// the LSN that the one before ended at. The chain ends where the next header is not there; when the
// one behind that is, a header is damaged and records are missing.
#include "store/journal.h"

enum {
  SCAN_LOAD,
  SCAN_LOADING,
  SCAN_RECORDS,
  SCAN_PEEK,
  SCAN_PEEKING,
  SCAN_FLUSH,
  SCAN_FLUSHING,
  READY,
  WRITING,
  WRITTEN,
  FLUSHING,
  FAILED
};

static u64 segment_at(const struct journal *j, u64 sequence) {
  u64 run = 0;
  u64 at = extents_at(j->place.extents, ROLE_JOURNAL, sequence % j->segments * j->place.segment_len,
                      &run);
  ASSERT(run >= j->place.segment_len);
  return j->place.partition_at + at;
}

void journal_start(struct journal *j, const struct journal_place *place, struct span fill,
                   struct span flight, struct span scan, u64 next_lsn) {
  ASSERT(place->segment_len % JOURNAL_BLOCK == 0 && place->segment_len <= BLOCK_TRANSFER_MAX);
  ASSERT(scan.len >= place->segment_len);
  ASSERT(fill.len == flight.len && fill.len % JOURNAL_BLOCK == 0);
  ASSERT(place->oldest != 0 && next_lsn != 0);
  *j = (struct journal){.place = *place, .next_lsn = next_lsn, .state = SCAN_LOAD};
  j->segments = extents_len(place->extents, ROLE_JOURNAL) / place->segment_len;
  j->fill.buf = fill;
  j->flight.buf = flight;
  j->scan = span_of(scan.ptr, place->segment_len);
  j->sequence = place->oldest - 1;
  j->pos = place->segment_len;
  ASSERT(j->segments >= 3);
}

bool journal_failed(const struct journal *j) {
  return j->state == FAILED;
}

static void submit(struct journal *j, const struct block_op *op, u8 next) {
  if (block_submit(j->place.block, op, 1) == 1) {
    j->state = next;
  }
}

// Takes a completion; true: there was one. A failure ends everything (J7).
static bool completed(struct journal *j, u64 now_ns) {
  struct block_done done;
  if (block_complete(j->place.block, now_ns, &done, 1) == 0) {
    return false;
  }
  if (done.status != BLOCK_OK) {
    j->state = FAILED;
  }
  return true;
}

// --- Replay

static void load(struct journal *j, u64 sequence, u64 len, u8 next) {
  memset(j->scan.ptr, 0, j->scan.len);
  struct block_op op = {BLOCK_READ, segment_at(j, sequence), len, j->scan.ptr, 0};
  submit(j, &op, next);
}

// The segment behind the last one is in memory: is it the next of the chain?
static enum err judge_segment(struct journal *j) {
  struct journal_segment s;
  enum err e = journal_segment_read(span_bytes(j->scan), j->place.segment_len, j->place.uuid, &s);
  if (e == ERR_UNSUPPORTED) {
    return e;
  }
  if (e != ERR_OK || s.sequence != j->sequence + 1) {
    j->state = SCAN_PEEK;
    return ERR_AGAIN;
  }
  bool first = s.sequence == j->place.oldest;
  if (!first && s.first_lsn != j->next_lsn) {
    return ERR_CORRUPT;
  }
  j->next_lsn = s.first_lsn;
  j->sequence = s.sequence;
  j->scan_pos = JOURNAL_BLOCK;
  j->scan_seed = journal_seed(j->place.uuid, s.sequence, s.boot);
  j->state = SCAN_RECORDS;
  return ERR_AGAIN;
}

static enum err judge_peek(struct journal *j) {
  struct journal_segment s;
  enum err e = journal_segment_read(span_bytes(j->scan), j->place.segment_len, j->place.uuid, &s);
  bool later = e == ERR_OK && s.sequence == j->sequence + 2;
  j->state = SCAN_FLUSH;
  return later ? ERR_CORRUPT : ERR_AGAIN;
}

// The next record of the segment, or its end.
static enum err next_record(struct journal *j, struct journal_record *out) {
  struct bytes b = span_bytes(j->scan);
  enum err e = journal_record_read(b, &j->scan_pos, j->scan_seed, j->next_lsn, out);
  bool inside = j->scan_pos % JOURNAL_BLOCK != 0;
  // The end of a batch: the next begins at a block. Padding shorter than a head is followed by that
  // batch's bytes, so it may look like anything; the LSN and the place decide.
  if (e != ERR_OK && inside) {
    j->scan_pos = ALIGN_UP(j->scan_pos, JOURNAL_BLOCK);
    e = journal_record_read(b, &j->scan_pos, j->scan_seed, j->next_lsn, out);
  }
  if (e == ERR_OK) {
    j->next_lsn++;
    return ERR_OK;
  }
  j->state = SCAN_LOAD;
  return ERR_AGAIN;
}

enum err journal_replay(struct journal *j, u64 now_ns, struct journal_record *out) {
  bool waits = j->state == SCAN_LOADING || j->state == SCAN_PEEKING || j->state == SCAN_FLUSHING;
  if (waits && !completed(j, now_ns)) {
    return ERR_AGAIN;
  }
  enum err e = ERR_AGAIN;
  switch (j->state) {
  case SCAN_LOAD: load(j, j->sequence + 1, j->place.segment_len, SCAN_LOADING); break;
  case SCAN_LOADING: e = judge_segment(j); break;
  case SCAN_RECORDS: return next_record(j, out);
  case SCAN_PEEK: load(j, j->sequence + 2, JOURNAL_BLOCK, SCAN_PEEKING); break;
  case SCAN_PEEKING: e = judge_peek(j); break;
  case SCAN_FLUSH: {  // what was read may still be in the disk's cache only
    struct block_op op = {.kind = BLOCK_FLUSH};
    submit(j, &op, SCAN_FLUSHING);
    break;
  }
  case SCAN_FLUSHING:
    j->state = READY;
    j->durable_lsn = j->next_lsn - 1;
    return ERR_NOT_FOUND;
  case FAILED: return ERR_IO;
  default: return ERR_NOT_FOUND;
  }
  if (e != ERR_AGAIN) {
    j->state = FAILED;
  }
  return e;
}

// --- Append

static enum err begin_batch(struct journal *j, u32 need) {
  struct journal_batch *b = &j->fill;
  u32 left = j->place.segment_len - j->pos;
  if (left < need) {
    if (j->sequence + 1 - j->place.oldest >= j->segments) {
      return ERR_LIMIT;
    }
    j->sequence++;
    j->pos = 0;
    left = j->place.segment_len;
    struct journal_segment s = {j->sequence, j->next_lsn, j->place.boot};
    journal_segment_write(&s, j->place.segment_len, j->place.uuid,
                          span_of(b->buf.ptr, JOURNAL_BLOCK));
    b->len = JOURNAL_BLOCK;
  }
  b->at = j->pos;
  b->cap = MIN(left, (u32)b->buf.len);
  b->sequence = j->sequence;
  b->seed = journal_seed(j->place.uuid, j->sequence, j->place.boot);
  return ERR_OK;
}

enum err journal_append(struct journal *j, u16 type, struct bytes payload, u64 *lsn) {
  struct journal_batch *b = &j->fill;
  u32 most = MIN(j->place.segment_len, (u32)b->buf.len) - JOURNAL_BLOCK - JOURNAL_RECORD_HEAD;
  if (j->state == FAILED) {
    return ERR_IO;
  }
  ASSERT(j->state >= READY);
  if (payload.len > MIN(most, JOURNAL_RECORD_MAX)) {
    return ERR_RANGE;
  }
  u32 need = JOURNAL_RECORD_HEAD + (u32)payload.len;
  if (b->len == 0) {
    TRY(begin_batch(j, need));
  }
  if (b->cap - b->len < need) {
    return ERR_AGAIN;
  }
  b->len += journal_record_write(span_of(b->buf.ptr, b->cap), b->at, b->len, b->seed, j->next_lsn,
                                 type, payload);
  b->last_lsn = j->next_lsn;
  *lsn = j->next_lsn++;
  j->records++;
  return ERR_OK;
}

static void close_batch(struct journal *j) {
  struct journal_batch b = j->fill;
  u32 len = ALIGN_UP(b.len, JOURNAL_BLOCK);
  memset(b.buf.ptr + b.len, 0, len - b.len);
  b.len = len;
  j->fill = (struct journal_batch){.buf = j->flight.buf};
  j->flight = b;
  j->pos = b.at + len;
  ASSERT(j->pos <= j->place.segment_len);
  j->batches++;
  j->bytes_written += len;
}

void journal_turn(struct journal *j, u64 now_ns) {
  if ((j->state == WRITING || j->state == FLUSHING) && completed(j, now_ns)) {
    if (j->state == FLUSHING) {
      ASSERT(j->flight.last_lsn > j->durable_lsn);
      j->durable_lsn = j->flight.last_lsn;
      j->flight.len = 0;
      j->state = READY;
    } else if (j->state == WRITING) {
      j->state = WRITTEN;
    }
  }
  if (j->state == READY && j->flight.len == 0 && j->fill.len != 0) {
    close_batch(j);
  }
  if (j->state == READY && j->flight.len != 0) {
    struct journal_batch *b = &j->flight;
    struct block_op op = {BLOCK_WRITE, segment_at(j, b->sequence) + b->at, b->len, b->buf.ptr, 0};
    submit(j, &op, WRITING);
  } else if (j->state == WRITTEN) {
    struct block_op op = {.kind = BLOCK_FLUSH};
    submit(j, &op, FLUSHING);
  }
}

void journal_release(struct journal *j, u64 oldest) {
  ASSERT(oldest >= j->place.oldest);
  ASSERT(oldest <= j->sequence + 1);
  j->place.oldest = oldest;
}

// SPDX-License-Identifier: Apache-2.0
#include "store/script.h"

void script_init(struct script *s, struct block *block, struct span scratch) {
  ASSERT(block != NULL);
  s->block = block;
  s->scratch = scratch;
  s->count = 0;
  s->next = 0;
  s->unread = 0;
  s->waiting = false;
  s->mismatch = false;
  s->state = SCRIPT_RUNNING;
}

void script_add(struct script *s, enum script_kind kind, u64 at, struct span memory) {
  ASSERT(s->count < SCRIPT_MAX);
  ASSERT(s->next == 0 && !s->waiting);
  ASSERT(kind != SCRIPT_VERIFY || memory.len <= s->scratch.len);
  s->step[s->count++] = (struct script_step){(u8)kind, at, memory};
}

static struct block_op op_of(const struct script *s) {
  const struct script_step *p = &s->step[s->next];
  struct block_op op = {.at = p->at, .len = p->s.len, .memory = p->s.ptr, .token = s->next};
  switch (p->kind) {
  case SCRIPT_WRITE: op.kind = BLOCK_WRITE; break;
  case SCRIPT_FLUSH: return (struct block_op){.kind = BLOCK_FLUSH, .token = s->next};
  case SCRIPT_VERIFY: op.memory = s->scratch.ptr; FALLTHROUGH;
  default: op.kind = BLOCK_READ; break;
  }
  return op;
}

static void judge(struct script *s, const struct block_done *done) {
  const struct script_step *p = &s->step[s->next];
  bool good = done->status == BLOCK_OK && done->token == s->next;
  if (!good && p->kind == SCRIPT_READ) {
    memset(p->s.ptr, SCRIPT_UNREAD, p->s.len);
    s->unread++;
    good = true;
  }
  if (good && p->kind == SCRIPT_VERIFY) {
    s->mismatch = memcmp(s->scratch.ptr, p->s.ptr, p->s.len) != 0;
    good = !s->mismatch;
  }
  s->waiting = false;
  s->next++;
  s->state = good ? s->state : SCRIPT_FAILED;
}

enum script_state script_turn(struct script *s, u64 now_ns) {
  struct block_done done;
  if (s->state != SCRIPT_RUNNING) {
    return s->state;
  }
  if (s->waiting && block_complete(s->block, now_ns, &done, 1) == 1) {
    judge(s, &done);
  }
  if (s->state == SCRIPT_RUNNING && s->next == s->count) {
    s->state = SCRIPT_DONE;
  }
  if (s->state == SCRIPT_RUNNING && !s->waiting) {
    struct block_op op = op_of(s);
    if (op.kind == BLOCK_READ) {
      memset(op.memory, SCRIPT_UNREAD,
             op.len);  // what is not read shall not look like what was written
    }
    s->waiting = block_submit(s->block, &op, 1) == 1;
  }
  struct block_info info;
  block_info(s->block, &info);
  if (info.dead && s->state == SCRIPT_RUNNING) {
    s->state = SCRIPT_FAILED;
  }
  return s->state;
}

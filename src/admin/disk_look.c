// SPDX-License-Identifier: Apache-2.0
#include "admin/disk_look.h"

#include "plat/plat.h"
#include "tls/digest.h"

#define STEP_NS 10000000ull
#define WAIT_NS 120000000000ull  // above the drivers' own deadlines and resets

bool disk_look_wanted(const struct block_info *i) {
  return !i->removable && !i->dead;
}

u8 disk_look_turn(struct disk *d) {
  u64 until = plat_now_ns() + WAIT_NS;
  while (!disk_turn(d, plat_now_ns())) {
    if (plat_now_ns() > until) {
      return DISK_IO;
    }
    plat_idle(0, plat_now_ns() + STEP_NS);
  }
  return d->verdict;
}

u8 disk_look_open(struct disk *d, struct block *b, struct span memory) {
  disk_open_start(d, b, tls_sha256, memory);
  return disk_look_turn(d);
}

static bool read_slot(struct block *b, u64 at, struct span block) {
  static struct script s;
  u64 until = plat_now_ns() + WAIT_NS;
  script_init(&s, b, span_of(NULL, 0));
  script_add(&s, SCRIPT_READ, at, block);
  while (script_turn(&s, plat_now_ns()) == SCRIPT_RUNNING) {
    if (plat_now_ns() > until) {
      return false;
    }
    plat_idle(0, plat_now_ns() + STEP_NS);
  }
  return s.state == SCRIPT_DONE && s.unread == 0;
}

static bool any_set(struct bytes b) {
  for (usize i = 0; i < b.len; i++) {
    if (b.ptr[i] != 0) {
      return true;
    }
  }
  return false;
}

void disk_look(struct block *b, const struct install_image *image, struct span memory,
               struct disk_look *out) {
  static struct disk d;
  struct span block = span_of(memory.ptr + DISK_MEMORY, INSTALL_BLOCK);
  ASSERT(memory.len >= INSTALL_MEMORY);
  *out = (struct disk_look){0};
  out->verdict = disk_look_open(&d, b, memory);
  bool read = d.first.len > 0 && out->verdict != DISK_IO;
  out->unfinished = read && install_unfinished(span_bytes(d.first));
  out->content = read && out->verdict == DISK_EMPTY && any_set(span_bytes(d.first));
  bool ours = out->verdict == DISK_OURS || out->verdict == DISK_OURS_READ_ONLY;
  struct bytes version;
  if (ours && image != NULL && d.info.block_len == INSTALL_BLOCK &&
      read_slot(b, image->slot_at, block) && install_slot_read(span_bytes(block), &version) != 0) {
    struct writer w = writer_init(span_of(out->version, sizeof out->version - 1));
    write_bytes(&w, version);
    out->version[w.pos] = 0;
  }
}

void disk_look_describe(struct writer *w, const struct disk_look *l) {
  bool ours = l->verdict == DISK_OURS || l->verdict == DISK_OURS_READ_ONLY;
  if (l->unfinished) {
    fmt(w, "an installation of urMQTT that was not finished");
  } else if (l->verdict == DISK_EMPTY) {
    fmt(w, l->content ? "something without a partition table" : "empty");
  } else if (l->verdict == DISK_FOREIGN) {
    fmt(w, "another system's partitions");
  } else if (ours && l->version[0] != 0) {
    fmt(w, "urMQTT ");
    fmt_escaped(w, bytes_str(l->version));
  } else if (ours) {
    fmt(w, "urMQTT's data, and no urMQTT that starts from it");
  } else {
    fmt(w, "%s", disk_verdict_text((enum disk_verdict)l->verdict));
  }
}

// SPDX-License-Identifier: Apache-2.0
// The structure block is a row of tokens: begin node (with its name), property, end node, nothing,
// end. A walk carries its depth and the cells of the nodes above; see fdt.h for the invariants.
#include "boot/fdt.h"

#define MAGIC 0xd00dfeedu
#define VERSION_COMPATIBLE 16u
#define TOKEN_BEGIN 1u
#define TOKEN_END 2u
#define TOKEN_PROPERTY 3u
#define TOKEN_NOTHING 4u
#define CELLS_ADDRESS 2u  // where a node says nothing (2.3.5)
#define CELLS_SIZE 1u
#define CELLS_MAX 4u

u32 fdt_total_len(const u8 *head) {
  u32 len = load_be32(head + 4);
  bool ours = load_be32(head) == MAGIC && load_be32(head + 24) <= VERSION_COMPATIBLE + 1 &&
              load_be32(head + 20) >= VERSION_COMPATIBLE;
  return ours && len >= FDT_HEADER_LEN && len <= FDT_LEN_MAX ? len : 0;
}

static bool block(struct bytes blob, u32 off, u32 len, struct bytes *out) {
  if (off > blob.len || len > blob.len - off) {
    return false;
  }
  *out = bytes_sub(blob, off, len);
  return true;
}

bool fdt_open(struct fdt *f, struct bytes blob) {
  *f = (struct fdt){0};
  if (blob.len < FDT_HEADER_LEN) {
    return false;
  }
  const u8 *h = blob.ptr;
  u32 total = fdt_total_len(h);
  if (total == 0 || total > blob.len) {
    return false;
  }
  blob.len = total;
  u32 reserve = load_be32(h + 16);
  bool sized = load_be32(h + 20) >= VERSION_COMPATIBLE + 1;  // version 16 has no length of nodes
  u32 nodes = load_be32(h + 8);
  u32 nodes_len = sized ? load_be32(h + 36) : total - MIN(nodes, total);
  return (nodes & 3) == 0 && (reserve & 7) == 0 && reserve <= total &&
         block(blob, reserve, total - reserve, &f->reserve) &&
         block(blob, nodes, nodes_len, &f->nodes) &&
         block(blob, load_be32(h + 12), load_be32(h + 32), &f->strings);
}

// Length of the string at `at` of b without its zero; false when it does not end inside.
static bool text_at(struct bytes b, u32 at, u32 *len) {
  if (at >= b.len) {
    return false;
  }
  struct bytes rest = bytes_skip(b, at);
  usize end = bytes_find(rest, 0);
  *len = (u32)end;
  return end < rest.len;
}

struct token {
  u32 kind;
  u32 next;            // offset of the token behind it
  struct bytes name;   // node or property
  struct bytes value;  // property
};

// The token at `at`; false at the end, or where the block is malformed.
static bool token_at(const struct fdt *f, u32 at, struct token *t) {
  struct reader r = reader_init(f->nodes);
  u32 len = 0;
  if (at > r.end) {
    return false;
  }
  r.pos = at;
  *t = (struct token){.kind = read_be32(&r)};
  if (t->kind == TOKEN_BEGIN) {
    if (!text_at(f->nodes, r.pos, &len)) {
      return false;
    }
    t->name = bytes_part(f->nodes, read_part(&r, len));
    (void)read_u8(&r);
  } else if (t->kind == TOKEN_PROPERTY) {
    u32 value_len = read_be32(&r);
    u32 name = read_be32(&r);
    t->value = reader_bytes(&r, read_part(&r, value_len));
    if (!text_at(f->strings, name, &len)) {
      return false;
    }
    t->name = bytes_sub(f->strings, name, len);
  } else if (t->kind != TOKEN_END && t->kind != TOKEN_NOTHING) {
    return false;
  }
  t->next = ALIGN_UP(r.pos, 4u);
  return r.err == ERR_OK;
}

// Enters the node whose begin token is t: its properties are read ahead for the cells of its
// children.
static void enter(const struct fdt *f, struct fdt_node *n, const struct token *t) {
  n->name = t->name;
  n->at = t->next;
  u32 d = MIN(n->depth, FDT_DEPTH_MAX);
  n->address_cells[d] = MIN(fdt_u32(f, n, "#address-cells", 0, CELLS_ADDRESS), CELLS_MAX);
  n->size_cells[d] = MIN(fdt_u32(f, n, "#size-cells", 0, CELLS_SIZE), CELLS_MAX);
}

bool fdt_root(const struct fdt *f, struct fdt_node *n) {
  struct token t = {0};
  *n = (struct fdt_node){0};
  u32 at = 0;
  while (token_at(f, at, &t) && t.kind == TOKEN_NOTHING) {
    at = t.next;
  }
  if (t.kind != TOKEN_BEGIN || t.next == 0) {
    return false;
  }
  enter(f, n, &t);
  return true;
}

bool fdt_next(const struct fdt *f, struct fdt_node *n) {
  struct token t;
  u32 depth = n->depth + 1;  // of a node that begins here
  for (u32 at = n->at; token_at(f, at, &t); at = t.next) {
    if (t.kind == TOKEN_BEGIN) {
      n->depth = depth;
      enter(f, n, &t);
      return true;
    }
    if (t.kind == TOKEN_END) {
      if (depth <= 1) {
        return false;  // the root has ended
      }
      depth--;
    }
  }
  return false;
}

bool fdt_property(const struct fdt *f, const struct fdt_node *n, const char *name,
                  struct bytes *out) {
  struct token t;
  for (u32 at = n->at; token_at(f, at, &t); at = t.next) {
    if (t.kind == TOKEN_BEGIN || t.kind == TOKEN_END) {
      return false;  // properties come before children (5.4.2)
    }
    if (t.kind == TOKEN_PROPERTY && bytes_equal_str(t.name, name)) {
      *out = t.value;
      return true;
    }
  }
  return false;
}

bool fdt_has_string(struct bytes value, const char *text) {
  u32 len = 0;
  for (u32 at = 0; text_at(value, at, &len); at += len + 1) {
    if (bytes_equal_str(bytes_sub(value, at, len), text)) {
      return true;
    }
  }
  return false;
}

bool fdt_next_compatible(const struct fdt *f, struct fdt_node *n, const char *compatible) {
  bool there = n->at == 0 ? fdt_root(f, n) : fdt_next(f, n);
  while (there) {
    struct bytes value;
    if (fdt_property(f, n, "compatible", &value) && fdt_has_string(value, compatible)) {
      return true;
    }
    there = fdt_next(f, n);
  }
  return false;
}

u64 fdt_cells(struct bytes value, u32 at, u32 cells) {
  u64 v = 0;
  for (u32 i = 0; i < cells; i++) {
    u64 off = (u64)at + 4 * (u64)i;
    if (off + 4 > value.len) {
      return 0;
    }
    v = v << 32 | load_be32(value.ptr + off);
  }
  return v;
}

u32 fdt_u32(const struct fdt *f, const struct fdt_node *n, const char *name, u32 idx,
            u32 otherwise) {
  struct bytes value;
  if (!fdt_property(f, n, name, &value) || value.len / 4 <= idx) {
    return otherwise;
  }
  return load_be32(value.ptr + 4 * (usize)idx);
}

bool fdt_reg(const struct fdt *f, const struct fdt_node *n, u32 idx, u64 *start, u64 *len) {
  struct bytes value;
  if (n->depth == 0 || n->depth > FDT_DEPTH_MAX || !fdt_property(f, n, "reg", &value)) {
    return false;
  }
  u32 address = n->address_cells[n->depth - 1];
  u32 size = n->size_cells[n->depth - 1];
  u32 entry = 4 * (address + size);
  if (address == 0 || idx >= value.len / entry) {
    return false;
  }
  *start = fdt_cells(value, idx * entry, address);
  *len = fdt_cells(value, idx * entry + 4 * address, size);
  return true;
}

bool fdt_is_named(const struct fdt_node *n, const char *text) {
  return bytes_equal_str(bytes_sub(n->name, 0, bytes_find(n->name, '@')), text);
}

// SPDX-License-Identifier: Apache-2.0
// Reading a password_file, and looking a user up in it.
#include "broker/password.h"

#include "base/base64.h"
#include "base/fmt.h"

#define NONE U32_MAX

struct entry {
  u32 off, len;  // user name
  u32 hash_next;
  struct password_hash hash;
};
struct passwords {
  struct siphash_key key;
  struct siphash_key steady;  // made of the entries: the same after a restart
  struct entry *entry;
  u32 *bucket;
  u32 *order;  // entries: those for passwords, then those for SCRAM
  u8 *text;
  u32 bucket_mask, count, text_len;
  u32 scram;
};

// --- encoded hashes

// The part before the next `stop`, which is taken off too.
static struct bytes cut(struct bytes *rest, u8 stop) {
  usize end = bytes_find(*rest, stop);
  struct bytes part = bytes_sub(*rest, 0, end);
  *rest = bytes_skip(*rest, end < rest->len ? end + 1 : end);
  return part;
}

static bool decode64(struct bytes text, u32 least, u8 *to, u32 most, u8 *len) {
  u32 n = 0;
  if (!base64_decode(text, span_of(to, most), &n) || n < least) {
    return false;
  }
  *len = (u8)n;
  return true;
}

// m=47104,t=1,p=1
static const char *argon_costs(struct bytes text, struct password_hash *out) {
  static const char names[] = "mtp";
  u64 v[3] = {0};
  for (u32 i = 0; i < 3; i++) {
    struct bytes part = cut(&text, ',');
    bool named = part.len > 2 && part.ptr[0] == (u8)names[i] && part.ptr[1] == '=';
    if (!named || bytes_to_u64(bytes_skip(part, 2), U32_MAX, &v[i]) != ERR_OK || v[i] == 0) {
      return "argon2id wants m=KIB,t=PASSES,p=LANES";
    }
  }
  if (v[2] > 16 || v[0] < 8 * v[2]) {
    return "argon2id with more than 16 lanes, or less than 8 KiB a lane";
  }
  if (v[0] > PASSWORD_ARGON_KIB_MAX || v[1] > PASSWORD_ARGON_WORK_MAX / v[0]) {
    return "argon2id of more than 47104 KiB, or whose KiB times passes are more than 524288, is "
           "not "
           "supported";
  }
  out->memory_kib = (u32)v[0];
  out->iterations = (u32)v[1];
  out->lanes = (u8)v[2];
  return text.len == 0 ? NULL : "argon2id wants m=KIB,t=PASSES,p=LANES";
}

// ITERATIONS$SALT$STOREDKEY$SERVERKEY
static const char *scram_keys(struct bytes text, struct password_hash *out) {
  u64 iterations = 0;
  u8 len = 0;
  *out = (struct password_hash){.kind = PASSWORD_SCRAM_SHA256, .hash_len = PASSWORD_HASH_LEN};
  if (bytes_to_u64(cut(&text, '$'), PASSWORD_ITERATIONS_MAX, &iterations) != ERR_OK ||
      iterations < PASSWORD_SCRAM_ITERATIONS_MIN) {
    return "the iterations of $scram-sha-256$ must be 4096 to 1000000";
  }
  out->iterations = (u32)iterations;
  if (!decode64(cut(&text, '$'), 1, out->salt, PASSWORD_SALT_MAX, &out->salt_len)) {
    return "the salt is not base64 of up to 64 bytes";
  }
  const u32 n = PASSWORD_SCRAM_KEY_LEN;
  if (!decode64(cut(&text, '$'), n, out->hash, n, &len) ||
      !decode64(text, n, out->hash + n, n, &len)) {
    return "the keys of $scram-sha-256$ are not base64 of 32 bytes each";
  }
  return NULL;
}

const char *password_decode(struct bytes text, struct password_hash *out) {
  *out = (struct password_hash){.kind = PASSWORD_SHA512};
  u32 hash_least = PASSWORD_HASH_LEN;
  struct bytes front = cut(&text, '$');
  struct bytes kind = cut(&text, '$');
  u64 iterations = 0;
  if (front.len != 0) {
    return "this is no hash: it must begin with $6$, $7$ or $argon2id$ (mosquitto_passwd -U makes "
           "hashes)";
  }
  if (bytes_equal_str(kind, "scram-sha-256")) {
    return scram_keys(text, out);
  }
  if (bytes_equal_str(kind, "7")) {
    out->kind = PASSWORD_PBKDF2;
    if (bytes_to_u64(cut(&text, '$'), PASSWORD_ITERATIONS_MAX, &iterations) != ERR_OK ||
        iterations == 0) {
      return "the iterations of $7$ must be 1 to 1000000";
    }
    out->iterations = (u32)iterations;
  } else if (bytes_equal_str(kind, "argon2id")) {
    out->kind = PASSWORD_ARGON2ID;
    hash_least = 16;
    if (!bytes_equal_str(cut(&text, '$'), "v=19")) {
      return "argon2id of another version than v=19";
    }
    const char *bad = argon_costs(cut(&text, '$'), out);
    if (bad != NULL) {
      return bad;
    }
  } else if (!bytes_equal_str(kind, "6")) {
    return "an unknown kind of hash: $6$, $7$, $argon2id$ and $scram-sha-256$ are known";
  }
  u32 salt_least = out->kind == PASSWORD_ARGON2ID ? 8 : 1;
  if (!decode64(cut(&text, '$'), salt_least, out->salt, PASSWORD_SALT_MAX, &out->salt_len)) {
    return "the salt is not base64 of up to 64 bytes";
  }
  if (!decode64(text, hash_least, out->hash, PASSWORD_HASH_LEN, &out->hash_len)) {
    return "the hash is not base64 of 64 bytes";
  }
  return NULL;
}

static void encode64(const u8 *from, u32 len, struct writer *w) {
  u8 text[BASE64_LEN(PASSWORD_HASH_LEN)];
  ASSERT(len <= PASSWORD_HASH_LEN);
  write_bytes(w, bytes_of(text, base64_encode(bytes_of(from, len), span_of(text, sizeof text))));
}

void password_encode(const struct password_hash *h, struct writer *w) {
  ASSERT(h->kind != PASSWORD_ARGON2ID);
  if (h->kind == PASSWORD_SCRAM_SHA256) {
    const u32 n = PASSWORD_SCRAM_KEY_LEN;
    fmt(w, "$scram-sha-256$%u$", h->iterations);
    encode64(h->salt, h->salt_len, w);
    write_u8(w, '$');
    encode64(h->hash, n, w);
    write_u8(w, '$');
    encode64(h->hash + n, n, w);
    return;
  }
  if (h->kind == PASSWORD_PBKDF2) {
    fmt(w, "$7$%u$", h->iterations);
  } else {
    write_str(w, "$6$");
  }
  encode64(h->salt, h->salt_len, w);
  write_u8(w, '$');
  encode64(h->hash, h->hash_len, w);
}

// --- the file

// Between the dollar signs of one line.
static u32 line_argon_kib(struct bytes line) {
  struct password_hash h;
  u32 most = 0;
  while (line.len > 0) {
    if (!bytes_equal_str(cut(&line, '$'), "argon2id") ||
        !bytes_equal_str(cut(&line, '$'), "v=19")) {
      continue;
    }
    struct bytes costs = bytes_sub(line, 0, bytes_find(line, '$'));
    most = argon_costs(costs, &h) == NULL ? MAX(most, h.memory_kib) : most;
  }
  return most;
}

u32 password_argon_kib(struct bytes text, u32 *line) {
  u32 most = 0;
  *line = 0;
  for (u32 number = 1; text.len > 0; number++) {
    struct bytes one = cut(&text, '\n');
    u32 kib = one.len > 0 && one.ptr[0] == '#' ? 0 : line_argon_kib(one);
    *line = kib > most ? number : *line;
    most = MAX(most, kib);
  }
  return most;
}

static bool is_space(u8 c) {
  return c == ' ' || (c >= 9 && c <= 13);
}

static struct bytes trim(struct bytes b) {
  while (b.len > 0 && is_space(b.ptr[0])) {
    b = bytes_skip(b, 1);
  }
  while (b.len > 0 && is_space(b.ptr[b.len - 1])) {
    b.len--;
  }
  return b;
}

u64 password_bytes(struct bytes text) {
  u64 lines = 1;
  for (usize i = 0; i < text.len; i++) {
    lines += text.ptr[i] == '\n' ? 1 : 0;
  }
  u64 buckets = 16;
  while (buckets < lines) {
    buckets *= 2;
  }
  return ALIGN_UP(sizeof(struct passwords) + lines * (sizeof(struct entry) + sizeof(u32)) +
                      buckets * sizeof(u32) + text.len,
                  16ull);
}

static struct passwords *lay_out(struct bytes text, struct span memory,
                                 const struct siphash_key *key) {
  ASSERT(memory.len >= password_bytes(text));
  ASSERT(((uptr)memory.ptr & 15) == 0);
  u32 lines = 1;
  for (usize i = 0; i < text.len; i++) {
    lines += text.ptr[i] == '\n' ? 1 : 0;
  }
  u32 buckets = 16;
  while (buckets < lines) {
    buckets *= 2;
  }
  struct passwords *p = (struct passwords *)(void *)memory.ptr;
  *p = (struct passwords){.key = *key, .bucket_mask = buckets - 1};
  u8 *at = memory.ptr + sizeof *p;
  p->entry = (struct entry *)(void *)at;
  at += lines * sizeof(struct entry);
  p->bucket = (u32 *)(void *)at;
  memset(p->bucket, 0xff, buckets * sizeof(u32));
  p->order = p->bucket + buckets;
  p->text = at + (buckets + lines) * sizeof(u32);
  return p;
}

static u32 find(const struct passwords *p, struct bytes name, u32 hash) {
  u32 i = p->bucket[hash & p->bucket_mask];
  while (i != NONE && !bytes_equal(bytes_of(p->text + p->entry[i].off, p->entry[i].len), name)) {
    i = p->entry[i].hash_next;
  }
  return i;
}

// One line. NULL: taken or skipped.
static const char *take_line(struct passwords *p, struct bytes line, bool *skipped,
                             struct bytes *which) {
  if (line.len == 0 || line.ptr[0] == '#' || trim(line).len == 0) {
    return NULL;
  }
  if (bytes_find(line, ':') == line.len) {
    *skipped = true;
    return "a line without a colon is skipped:";
  }
  struct bytes name = trim(cut(&line, ':'));
  struct bytes encoded = trim(cut(&line, ':'));
  *which = name;
  if (name.len == 0 || bytes_find(name, 0) < name.len) {
    return "the user's name is missing";
  }
  if (name.len > U16_MAX) {
    return "the user's name is too long:";
  }
  u32 hash = (u32)siphash(&p->key, name);
  if (find(p, name, hash) != NONE) {
    return "this user is there already:";
  }
  struct entry *e = &p->entry[p->count];
  const char *bad = password_decode(encoded, &e->hash);
  if (bad != NULL) {
    return bad;
  }
  e->off = p->text_len;
  e->len = (u32)name.len;
  memcpy(p->text + e->off, name.ptr, name.len);
  p->text_len += e->len;
  u32 *bucket = &p->bucket[hash & p->bucket_mask];
  e->hash_next = *bucket;
  *bucket = p->count++;
  return NULL;
}

// Groups the entries by what they are for, and mixes a key of them all.
static void group(struct passwords *p) {
  u32 front = 0, back = p->count;
  for (u32 i = 0; i < p->count; i++) {
    const struct password_hash *h = &p->entry[i].hash;
    bool scram = h->kind == PASSWORD_SCRAM_SHA256;
    p->order[scram ? --back : front++] = i;
    u64 mixed = siphash(&p->steady, bytes_of(h->hash, h->hash_len));
    p->steady.k0 ^= siphash(&p->steady, bytes_of(h->salt, h->salt_len));
    p->steady.k1 = (p->steady.k1 << 1 | p->steady.k1 >> 63) ^ mixed;
  }
  p->scram = p->count - front;
}

struct passwords *password_parse(struct bytes text, struct span memory,
                                 const struct siphash_key *key, password_say *say, void *user) {
  struct passwords *p = lay_out(text, memory, key);
  bool good = true;
  struct bytes rest = text;
  for (u32 number = 1; rest.len > 0; number++) {
    struct bytes line = cut(&rest, '\n');
    bool skipped = false;
    struct bytes which = bytes_of(NULL, 0);
    const char *why = take_line(p, line, &skipped, &which);
    if (why == NULL) {
      continue;
    }
    struct password_complaint c = {.line = number, .fatal = !skipped};
    struct writer w = writer_init(span_of(c.text, sizeof c.text - 1));
    write_str(&w, why);
    if (which.len > 0) {  // never a hash, never a line that could be a password
      write_str(&w, " user \"");
      fmt_escaped(&w, bytes_sub(which, 0, MIN(which.len, (usize)24)));
      write_str(&w, "\"");
    }
    c.text[w.pos] = 0;
    say(user, &c);
    good &= skipped;
  }
  group(p);
  return good ? p : NULL;
}

bool password_find(const void *ctx, struct bytes username, struct password_hash *out) {
  const struct passwords *p = ctx;
  u64 hash = siphash(&p->key, username);
  u32 i = find(p, username, (u32)hash);
  u32 count = p->count - p->scram;
  if (i != NONE && p->entry[i].hash.kind != PASSWORD_SCRAM_SHA256) {
    *out = p->entry[i].hash;
    return true;
  }
  if (count > 0) {  // I1: chosen by bits that the buckets do not use
    *out = p->entry[p->order[(hash >> 32) % count]].hash;
  } else {
    *out = (struct password_hash){
        .kind = PASSWORD_PBKDF2, .iterations = 101, .salt_len = 12, .hash_len = PASSWORD_HASH_LEN};
  }
  return false;
}

bool password_find_scram(const void *ctx, struct bytes username, struct password_hash *out) {
  const struct passwords *p = ctx;
  ASSERT(p->scram > 0);
  u64 name = siphash(&p->steady, username);
  u32 i = find(p, username, (u32)siphash(&p->key, username));
  bool known = i != NONE && p->entry[i].hash.kind == PASSWORD_SCRAM_SHA256;
  u32 other = p->order[p->count - p->scram + (u32)((name >> 32) % p->scram)];
  *out = p->entry[known ? i : other].hash;
  for (u64 at = 0; !known && at < PASSWORD_SALT_MAX / 8; at++) {
    u64 salt[2] = {name, at}, key[2] = {~name, at};
    salt[0] = siphash(&p->steady, bytes_of(salt, sizeof salt));
    key[0] = siphash(&p->key, bytes_of(key, sizeof key));
    memcpy(out->salt + 8 * at, salt, 8);
    memcpy(out->hash + 8 * at, key, 8);
  }
  return known;
}

struct password_stats password_stats(const struct passwords *p) {
  struct password_stats s = {.users = p->count, .scram = p->scram};
  for (u32 i = 0; i < p->count; i++) {
    const struct password_hash *h = &p->entry[i].hash;
    s.argon2 += h->kind == PASSWORD_ARGON2ID ? 1 : 0;
    s.argon_kib_max = MAX(s.argon_kib_max, h->kind == PASSWORD_ARGON2ID ? h->memory_kib : 0u);
    s.iterations_max = MAX(s.iterations_max, h->kind == PASSWORD_PBKDF2 ? h->iterations : 0u);
  }
  return s;
}

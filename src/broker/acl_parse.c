// SPDX-License-Identifier: Apache-2.0
// Reading an acl_file. Its grammar is mosquitto's, blank by blank: words are parted by spaces only,
// '#' begins a comment in the first column only, white space at the end of a line is nothing, the
// access word may be left out when the filter has no space, the rest of a `user` line is the name.
// Lines that are none of this are fatal, as in mosquitto 2.1.
//
// I1  Two passes over the same lines: the first counts, the second fills what the first has sized.
#include "broker/acl_state.h"

#include "base/fmt.h"
#include "mqtt/topic.h"

#define LEVELS_MAX 200u  // mosquitto's TOPIC_HIERARCHY_LIMIT

enum line_kind { LINE_NOTHING, LINE_USER, LINE_TOPIC, LINE_PATTERN, LINE_BAD };
struct line {
  enum line_kind kind;
  struct bytes text;  // name or filter
  u8 access;
  const char *why;     // of LINE_BAD
  struct bytes which;  // the word that it is about
};

static bool is_space(u8 c) {
  return c == ' ' || (c >= 9 && c <= 13);
}

static struct bytes trim_end(struct bytes b) {
  while (b.len > 0 && is_space(b.ptr[b.len - 1])) {
    b.len--;
  }
  return b;
}

static struct bytes trim(struct bytes b) {
  while (b.len > 0 && is_space(b.ptr[0])) {
    b = bytes_skip(b, 1);
  }
  return trim_end(b);
}

// The next word, parted by spaces; empty at the end.
static struct bytes next_word(struct bytes *rest) {
  while (rest->len > 0 && rest->ptr[0] == ' ') {
    *rest = bytes_skip(*rest, 1);
  }
  usize end = bytes_find(*rest, ' ');
  struct bytes word = bytes_sub(*rest, 0, end);
  *rest = bytes_skip(*rest, end < rest->len ? end + 1 : end);
  return word;
}

static struct line bad(const char *why, struct bytes which) {
  return (struct line){.kind = LINE_BAD, .why = why, .which = which};
}

// A filter as mosquitto has it: $share/ is nothing special in a rule.
static bool filter_valid(struct bytes f) {
  u32 levels = 1;
  for (usize i = 0; i < f.len; i++) {
    levels += f.ptr[i] == '/' ? 1 : 0;
  }
  bool shared = bytes_starts_with(f, BYTES_LIT("$share/"));
  return levels <= LEVELS_MAX && topic_filter_valid(shared ? bytes_skip(f, 1) : f);
}

static struct line rule_line(enum line_kind kind, struct bytes rest) {
  static const struct {
    const char *word;
    u8 access;
  } words[] = {{"read", ACCESS_READ},
               {"write", ACCESS_WRITE},
               {"readwrite", ACCESS_READ | ACCESS_WRITE},
               {"deny", 0}};
  struct line l = {.kind = kind, .access = ACCESS_READ | ACCESS_WRITE};
  struct bytes word = next_word(&rest);
  l.text = trim(rest);
  if (word.len == 0) {
    return bad("the topic is missing", word);
  }
  if (l.text.len == 0) {
    l.text = word;
  } else {
    u32 i = 0;
    while (i < ARRAY_COUNT(words) && !bytes_equal_str(word, words[i].word)) {
      i++;
    }
    if (i == ARRAY_COUNT(words)) {
      return bad("read, write, readwrite or deny is wanted, not", word);
    }
    l.access = words[i].access;
  }
  return filter_valid(l.text) ? l : bad("this is no topic filter:", l.text);
}

static struct line read_line(struct bytes text) {
  text = trim_end(text);
  if (text.len == 0 || text.ptr[0] == '#') {
    return (struct line){.kind = LINE_NOTHING};
  }
  if (bytes_find(text, 0) < text.len) {
    return bad("a zero byte", bytes_of(NULL, 0));
  }
  struct bytes rest = text;
  struct bytes word = next_word(&rest);
  if (word.len == 0) {
    return (struct line){.kind = LINE_NOTHING};
  }
  if (bytes_equal_str(word, "topic")) {
    return rule_line(LINE_TOPIC, rest);
  }
  if (bytes_equal_str(word, "pattern")) {
    return rule_line(LINE_PATTERN, rest);
  }
  if (!bytes_equal_str(word, "user")) {
    return bad("user, topic or pattern is wanted, not", word);
  }
  struct line l = {.kind = LINE_USER, .text = trim(rest)};
  bool fits = l.text.len > 0 && l.text.len <= U16_MAX;
  return fits ? l : bad("the user's name is missing or too long", bytes_of(NULL, 0));
}

// The next line of the text; false at its end.
static bool next_line(struct bytes *rest, struct line *out) {
  if (rest->len == 0) {
    return false;
  }
  usize end = bytes_find(*rest, '\n');
  *out = read_line(bytes_sub(*rest, 0, end));
  *rest = bytes_skip(*rest, end < rest->len ? end + 1 : end);
  return true;
}

// --- sizes

struct sizes {
  u32 rules, users, buckets;
  u64 text;
};

static struct sizes count(struct bytes text) {
  struct sizes n = {.buckets = 16};
  struct line l;
  while (next_line(&text, &l)) {
    n.rules += l.kind == LINE_TOPIC || l.kind == LINE_PATTERN ? 1 : 0;
    n.users += l.kind == LINE_USER ? 1 : 0;  // repeated ones too: a bound
    n.text += l.kind == LINE_NOTHING || l.kind == LINE_BAD ? 0 : l.text.len;
  }
  while (n.buckets < n.users) {
    n.buckets *= 2;
  }
  return n;
}

static u64 bytes_for(const struct sizes *n) {
  return ALIGN_UP(sizeof(struct acl) + n->rules * (u64)sizeof(struct acl_rule) +
                      n->users * (u64)sizeof(struct acl_user) + n->buckets * (u64)sizeof(u32) +
                      n->text,
                  16ull);
}

u64 acl_bytes(struct bytes text) {
  struct sizes n = count(text);
  return bytes_for(&n);
}

// --- building

static void complain(acl_say *say, void *user, u32 number, bool fatal, const char *why,
                     struct bytes which) {
  struct acl_complaint c = {.line = number, .fatal = fatal};
  struct writer w = writer_init(span_of(c.text, sizeof c.text - 1));
  write_str(&w, why);
  if (which.len > 0) {
    write_str(&w, " \"");
    fmt_escaped(&w, bytes_sub(which, 0, MIN(which.len, (usize)40)));
    write_str(&w, which.len > 40 ? "...\"" : "\"");
  }
  c.text[w.pos] = 0;
  say(user, &c);
}

static u32 keep(struct acl *a, struct bytes text) {
  u32 off = a->text_len;
  memcpy(a->text + off, text.ptr, text.len);
  a->text_len += (u32)text.len;
  return off;
}

static u32 user_make(struct acl *a, struct bytes name) {
  u32 i = acl_user_find(a, name);
  if (i != ACL_NONE) {
    return i;
  }
  i = a->user_count++;
  u32 *bucket = &a->bucket[(u32)siphash(&a->key, name) & a->bucket_mask];
  a->user[i] = (struct acl_user){.off = keep(a, name),
                                 .len = (u32)name.len,
                                 .hash_next = *bucket,
                                 .list = {ACL_NONE, ACL_NONE, ACL_NONE}};
  *bucket = i;
  return i;
}

// Shape, literal front and placeholders of a rule's text.
static void shape_of(struct bytes t, bool pattern, struct acl_rule *r) {
  bool literal = true;
  for (usize from = 0; from <= t.len;) {
    usize end = from;
    while (end < t.len && t.ptr[end] != '/') {
      end++;
    }
    bool holder = pattern && end - from == 2 && t.ptr[from] == '%' &&
                  (t.ptr[from + 1] == 'c' || t.ptr[from + 1] == 'u');
    bool wild = end - from == 1 && (t.ptr[from] == '+' || t.ptr[from] == '#');
    r->has_user |= holder && t.ptr[from + 1] == 'u';
    r->has_holders |= holder;
    if (literal && (holder || wild)) {
      literal = false;
      r->literal_len = (u32)from;
      r->shape = ACL_GENERAL;
      if (wild && t.ptr[from] == '#') {
        r->shape = from == 0 ? ACL_ALL : ACL_SUBTREE;
        r->literal_len = from == 0 ? 0 : (u32)from - 1;
      }
    }
    from = end + 1;
  }
  if (literal) {
    r->shape = ACL_EXACT;
    r->literal_len = (u32)t.len;
  }
}

static const struct acl_rule *rule_make(struct acl *a, struct acl_list *list,
                                        const struct line *l) {
  u32 i = a->rule_count++;
  struct acl_rule *r = &a->rule[i];
  bool pattern = l->kind == LINE_PATTERN;
  *r = (struct acl_rule){
      .off = keep(a, l->text), .len = (u32)l->text.len, .next = ACL_NONE, .access = l->access};
  shape_of(l->text, pattern, r);
  a->pattern_count += pattern ? 1 : 0;
  if (l->access == 0) {
    r->next = list->deny;
    list->deny = i;
    return r;
  }
  *(list->grant == ACL_NONE ? &list->grant : &a->rule[list->grant_last].next) = i;
  list->grant_last = i;
  return r;
}

static struct acl *lay_out(struct span memory, const struct sizes *n,
                           const struct siphash_key *key) {
  ASSERT(memory.len >= bytes_for(n));
  ASSERT(((uptr)memory.ptr & 15) == 0);
  struct acl *a = (struct acl *)(void *)memory.ptr;
  u8 *at = memory.ptr + sizeof *a;
  *a = (struct acl){.key = *key, .bucket_mask = n->buckets - 1};
  a->rule = (struct acl_rule *)(void *)at;
  at += n->rules * sizeof(struct acl_rule);
  a->user = (struct acl_user *)(void *)at;
  at += n->users * sizeof(struct acl_user);
  a->bucket = (u32 *)(void *)at;
  at += n->buckets * sizeof(u32);
  a->text = at;
  a->anonymous = a->pattern = (struct acl_list){ACL_NONE, ACL_NONE, ACL_NONE};
  memset(a->bucket, 0xff, n->buckets * sizeof(u32));
  return a;
}

struct acl *acl_parse(struct bytes text, struct span memory, const struct siphash_key *key,
                      acl_say *say, void *user) {
  struct sizes n = count(text);
  struct acl *a = lay_out(memory, &n, key);
  struct acl_list *current = &a->anonymous;
  bool good = true;
  struct line l;
  for (u32 number = 1; next_line(&text, &l); number++) {
    switch (l.kind) {
    case LINE_NOTHING: break;
    case LINE_BAD:
      good = false;
      complain(say, user, number, true, l.why, l.which);
      break;
    case LINE_USER: current = &a->user[user_make(a, l.text)].list; break;
    case LINE_TOPIC: (void)rule_make(a, current, &l); break;
    case LINE_PATTERN:
      if (!rule_make(a, &a->pattern, &l)->has_holders) {
        complain(say, user, number, false, "no level of this pattern is %c or %u:", l.text);
      }
      break;
    }
  }
  ASSERT(a->rule_count <= n.rules);
  ASSERT(a->user_count <= n.users);
  ASSERT(a->text_len <= n.text);
  return good ? a : NULL;
}

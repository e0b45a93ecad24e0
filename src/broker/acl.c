// SPDX-License-Identifier: Apache-2.0
// Asking a compiled acl_file. A rule is refused by one compare of its literal front in most cases;
// only what has wildcards in the middle, %c or %u is walked level by level.
#include "broker/acl_state.h"
#include "mqtt/topic.h"

u32 acl_user_find(const struct acl *a, struct bytes name) {
  u32 i = a->bucket[(u32)siphash(&a->key, name) & a->bucket_mask];
  while (i != ACL_NONE && !bytes_equal(acl_text(a, a->user[i].off, a->user[i].len), name)) {
    i = a->user[i].hash_next;
  }
  return i;
}

static struct bytes level_at(struct bytes b, usize from) {
  usize end = from;
  while (end < b.len && b.ptr[end] != '/') {
    end++;
  }
  return bytes_sub(b, from, end - from);
}

// What the rule's level stands for: itself, or the name it is a placeholder of. `who` is NULL where
// there are no placeholders.
static struct bytes meant(struct bytes level, const struct access_who *who, bool *literal) {
  *literal = true;
  if (who != NULL && level.len == 2 && level.ptr[0] == '%' && level.ptr[1] == 'c') {
    return who->client_id;
  }
  if (who != NULL && level.len == 2 && level.ptr[0] == '%' && level.ptr[1] == 'u') {
    return who->username;
  }
  *literal = level.len != 1 || (level.ptr[0] != '+' && level.ptr[0] != '#');
  return level;
}

// The levels of the rule from `f` on against those of the topic from `n` on. Both begin a level.
static bool levels_match(struct bytes rule, usize f, struct bytes topic, usize n,
                         const struct access_who *who) {
  for (;;) {
    struct bytes level = level_at(rule, f);
    bool literal = true;
    struct bytes text = meant(level, who, &literal);
    if (!literal && text.ptr[0] == '#') {
      return true;
    }
    usize used = literal ? text.len : level_at(topic, n).len;
    if (literal && (used > topic.len - n || !bytes_equal(bytes_sub(topic, n, used), text))) {
      return false;
    }
    n += used;
    f += level.len;
    bool rule_ends = f == rule.len;
    if (n == topic.len) {  // a/# matches a too
      return rule_ends || (rule.len - f == 2 && rule.ptr[f + 1] == '#');
    }
    if (rule_ends || topic.ptr[n] != '/') {
      return false;
    }
    f++;
    n++;
  }
}

static bool rule_matches(const struct acl *a, const struct acl_rule *r, struct bytes topic,
                         const struct access_who *who) {
  struct bytes text = acl_text(a, r->off, r->len);
  if ((text.ptr[0] == '$') != (topic.ptr[0] == '$') || (r->has_user && !who->has_username)) {
    return false;  // I3, I2
  }
  u32 lit = r->literal_len;
  bool front = topic.len >= lit && (lit == 0 || memcmp(topic.ptr, text.ptr, lit) == 0);
  switch ((enum acl_shape)r->shape) {
  case ACL_ALL: return true;
  case ACL_EXACT: return front && topic.len == lit;
  case ACL_SUBTREE: return front && (topic.len == lit || topic.ptr[lit] == '/');
  case ACL_GENERAL: break;
  }
  // The literal front of a general rule ends with its slash: a/ + / ...; the topic may be shorter
  // by that slash only where the rest is '#', which is ACL_SUBTREE.
  return front && levels_match(text, lit, topic, lit, r->has_holders ? who : NULL);
}

static bool any(const struct acl *a, u32 i, u8 access, struct bytes topic,
                const struct access_who *who) {
  for (; i != ACL_NONE; i = a->rule[i].next) {
    const struct acl_rule *r = &a->rule[i];
    if ((r->access & access) == access && rule_matches(a, r, topic, who)) {
      return true;
    }
  }
  return false;
}

static bool has_wildcard_byte(struct bytes b) {
  return bytes_find(b, '+') < b.len || bytes_find(b, '#') < b.len;
}

static const struct acl_list *list_of(const struct acl *a, const struct access_who *who) {
  if (!who->has_username) {
    return &a->anonymous;
  }
  u32 i = acl_user_find(a, who->username);
  return i == ACL_NONE ? NULL : &a->user[i].list;
}

// --- SUBSCRIBE: filters against rules

// Can a topic match both? Placeholders of the rule stand for `who`.
static bool overlaps(struct bytes rule, struct bytes filter, const struct access_who *who) {
  if ((rule.ptr[0] == '$') != (filter.ptr[0] == '$')) {
    return false;
  }
  usize f = 0;
  usize n = 0;
  for (;;) {
    struct bytes level = level_at(rule, f);
    struct bytes other = level_at(filter, n);
    bool literal = true;
    struct bytes text = meant(level, who, &literal);
    bool other_wild = other.len == 1 && (other.ptr[0] == '+' || other.ptr[0] == '#');
    if ((!literal && text.ptr[0] == '#') || (other_wild && other.ptr[0] == '#')) {
      return true;
    }
    if (literal && !other_wild) {
      bool same = text.len <= filter.len - n && bytes_equal(bytes_sub(filter, n, text.len), text);
      if (!same) {
        return false;
      }
      n += text.len;
    } else if (literal && bytes_find(text, '/') < text.len) {
      return true;  // a name over several levels: perhaps, and what is delivered is checked anyhow
    } else {
      n += other.len;
    }
    f += level.len;
    bool rule_ends = f == rule.len;
    bool filter_ends = n == filter.len;
    if (rule_ends && filter_ends) {
      return true;
    }
    if (rule_ends || filter_ends) {  // a/# meets a
      struct bytes rest = rule_ends ? bytes_skip(filter, n) : bytes_skip(rule, f);
      return bytes_equal_str(rest, "/#");
    }
    if (filter.ptr[n] != '/') {
      return false;
    }
    f++;
    n++;
  }
}

// Does the rule match every topic that the filter matches?
static bool covers(struct bytes rule, struct bytes filter, const struct access_who *who) {
  if ((rule.ptr[0] == '$') != (filter.ptr[0] == '$')) {
    return false;
  }
  usize f = 0;
  usize n = 0;
  for (;;) {
    struct bytes level = level_at(rule, f);
    struct bytes other = level_at(filter, n);
    bool literal = true;
    struct bytes text = meant(level, who, &literal);
    if (!literal && text.ptr[0] == '#') {
      return true;
    }
    bool rest = other.len == 1 && other.ptr[0] == '#';
    usize used = literal ? text.len : other.len;
    bool same =
        !literal || (used <= filter.len - n && bytes_equal(bytes_sub(filter, n, used), text));
    if (rest || !same) {
      return false;
    }
    n += used;
    f += level.len;
    if (n == filter.len) {
      return f == rule.len || bytes_equal_str(bytes_skip(rule, f), "/#");
    }
    if (f == rule.len || filter.ptr[n] != '/') {
      return false;
    }
    f++;
    n++;
  }
}

// A deny that covers the filter, or a grant to read that overlaps it.
static bool any_filter(const struct acl *a, u32 i, bool deny, struct bytes filter,
                       const struct access_who *who) {
  for (; i != ACL_NONE; i = a->rule[i].next) {
    const struct acl_rule *r = &a->rule[i];
    struct bytes text = acl_text(a, r->off, r->len);
    const struct access_who *names = r->has_holders ? who : NULL;
    bool counts = deny || (r->access & ACCESS_READ) != 0;
    if (counts && !(r->has_user && !who->has_username) &&
        (deny ? covers(text, filter, names) : overlaps(text, filter, names))) {
      return true;
    }
  }
  return false;
}

static bool may_subscribe(const struct acl *a, const struct access_who *who, struct bytes filter) {
  struct bytes group;
  struct bytes inner = filter;
  (void)topic_shared(filter, &group, &inner);
  const struct acl_list *own = list_of(a, who);
  if (own != NULL && any_filter(a, own->deny, true, inner, who)) {
    return false;
  }
  if (own != NULL && any_filter(a, own->grant, false, inner, who)) {
    return true;
  }
  if (a->pattern_count == 0 || has_wildcard_byte(who->client_id) ||
      (who->has_username && has_wildcard_byte(who->username))) {
    return false;
  }
  return !any_filter(a, a->pattern.deny, true, inner, who) &&
         any_filter(a, a->pattern.grant, false, inner, who);
}

bool acl_allows(const void *ctx, const struct access_who *who, enum access_kind kind,
                struct bytes topic) {
  const struct acl *a = ctx;
  ASSERT(topic.len > 0);
  if (kind == ACCESS_UNSUBSCRIBE) {
    return true;
  }
  if (kind == ACCESS_SUBSCRIBE) {
    return may_subscribe(a, who, topic);
  }
  u8 access = (u8)kind;
  const struct acl_list *own = list_of(a, who);
  if (own != NULL && any(a, own->deny, 0, topic, who)) {
    return false;
  }
  if (own != NULL && any(a, own->grant, access, topic, who)) {
    return true;
  }
  if (a->pattern_count == 0 || has_wildcard_byte(who->client_id) ||
      (who->has_username && has_wildcard_byte(who->username))) {
    return false;  // I1
  }
  return !any(a, a->pattern.deny, 0, topic, who) && any(a, a->pattern.grant, access, topic, who);
}

static bool wants_user(struct bytes filter) {
  for (usize i = 0; i + 1 < filter.len; i++) {
    bool starts = i == 0 || filter.ptr[i - 1] == '/';
    bool ends = i + 2 == filter.len || filter.ptr[i + 2] == '/';
    if (starts && ends && filter.ptr[i] == '%' && filter.ptr[i + 1] == 'u') {
      return true;
    }
  }
  return false;
}

bool acl_filter_matches(struct bytes filter, struct bytes topic, const struct access_who *who) {
  return (filter.ptr[0] == '$') == (topic.ptr[0] == '$') &&
         (who->has_username || !wants_user(filter)) && levels_match(filter, 0, topic, 0, who);
}

bool acl_filter_covers(struct bytes filter, struct bytes other, const struct access_who *who) {
  return (who->has_username || !wants_user(filter)) && covers(filter, other, who);
}

struct acl_stats acl_stats(const struct acl *a) {
  return (struct acl_stats){a->user_count, a->rule_count - a->pattern_count, a->pattern_count};
}

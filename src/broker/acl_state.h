// SPDX-License-Identifier: Apache-2.0
// The compiled form of an acl_file, shared by acl.c and acl_parse.c only.
#pragma once
#include "broker/acl.h"

#define ACL_NONE U32_MAX

enum acl_shape {
  ACL_EXACT,    // no wildcard
  ACL_SUBTREE,  // LITERAL/#
  ACL_ALL,      // #
  ACL_GENERAL,  // the levels behind the literal ones are compared one by one
};
struct acl_rule {
  u32 off, len;     // its text
  u32 literal_len;  // bytes in front of the first level that is not literal
  u32 next;
  u8 shape;
  u8 access;         // ACCESS_READ | ACCESS_WRITE; 0 = deny
  bool has_user;     // %u as a level
  bool has_holders;  // %u or %c as a level; only in patterns
};
struct acl_list {
  u32 deny, grant, grant_last;
};
struct acl_user {
  u32 off, len;
  u32 hash_next;
  struct acl_list list;
};
struct acl {
  struct siphash_key key;
  u8 *text;  // rules' and users' texts, one behind the other
  struct acl_rule *rule;
  struct acl_user *user;
  u32 *bucket;
  u32 bucket_mask;
  u32 text_len, rule_count, user_count, pattern_count;
  struct acl_list anonymous;
  struct acl_list pattern;
};

static inline struct bytes acl_text(const struct acl *a, u32 off, u32 len) {
  return bytes_of(a->text + off, len);
}
// The user's entry, ACL_NONE when the file has none.
u32 acl_user_find(const struct acl *a, struct bytes name);

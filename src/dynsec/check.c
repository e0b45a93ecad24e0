// SPDX-License-Identifier: Apache-2.0
// Questions of the broker and the server (dynsec.h I2).
#include "broker/acl.h"
#include "dynsec/state.h"
#include "mqtt/topic.h"

enum verdict { NO_RULE, ALLOWED, DENIED };

static bool rule_matches(const struct acl_rule *r, enum access_kind kind,
                         const struct access_who *who, struct bytes topic) {
  struct bytes text = bytes_of(r->topic, r->topic_len);
  switch ((enum acl_type)r->type) {
  case PUBLISH_SEND: return kind == ACCESS_WRITE && acl_filter_matches(text, topic, who);
  case PUBLISH_RECEIVE: return kind == ACCESS_READ && acl_filter_matches(text, topic, who);
  case SUBSCRIBE_LITERAL: return kind == ACCESS_SUBSCRIBE && bytes_equal(text, topic);
  case SUBSCRIBE_PATTERN: return kind == ACCESS_SUBSCRIBE && acl_filter_covers(text, topic, who);
  case UNSUBSCRIBE_LITERAL: return kind == ACCESS_UNSUBSCRIBE && bytes_equal(text, topic);
  case UNSUBSCRIBE_PATTERN:
    return kind == ACCESS_UNSUBSCRIBE && acl_filter_covers(text, topic, who);
  case ACL_TYPES: break;
  }
  return false;
}

static bool has_wildcard(struct bytes filter) {
  return bytes_find(filter, '+') < filter.len || bytes_find(filter, '#') < filter.len;
}

static enum verdict ask_roles(const struct dynsec *d, u32 list, enum access_kind kind,
                              const struct access_who *who, struct bytes topic) {
  for (; list != NONE; list = link_at(d, list)->next) {
    const struct object *role = object_at(d, link_at(d, list)->target);
    if (kind == ACCESS_SUBSCRIBE && !role->wildcard_subs && has_wildcard(topic)) {
      return DENIED;
    }
    for (u32 i = role->acls; i != NONE; i = rule_at(d, i)->next) {
      if (rule_matches(rule_at(d, i), kind, who, topic)) {
        return rule_at(d, i)->allow ? ALLOWED : DENIED;
      }
    }
  }
  return NO_RULE;
}

bool dynsec_allows(const void *ctx, const struct access_who *who, enum access_kind kind,
                   struct bytes topic) {
  const struct dynsec *d = ctx;
  enum verdict v = NO_RULE;
  struct bytes group;
  struct bytes filter = topic;
  if (kind == ACCESS_SUBSCRIBE || kind == ACCESS_UNSUBSCRIBE) {
    (void)topic_shared(topic, &group, &filter);
  }
  if (who->has_username) {
    const struct object *client = object_find(d, CLIENT, who->username);
    if (client == NULL) {
      return false;
    }
    v = ask_roles(d, client->roles, kind, who, filter);
    for (u32 i = client->groups; i != NONE && v == NO_RULE; i = link_at(d, i)->next) {
      v = ask_roles(d, object_at(d, link_at(d, i)->target)->roles, kind, who, filter);
    }
  } else if (d->anonymous_group != NONE) {
    v = ask_roles(d, object_at(d, d->anonymous_group)->roles, kind, who, filter);
  }
  if (v != NO_RULE) {
    return v == ALLOWED;
  }
  u32 by_default = kind == ACCESS_WRITE       ? DEFAULT_SEND
                   : kind == ACCESS_READ      ? DEFAULT_RECEIVE
                   : kind == ACCESS_SUBSCRIBE ? DEFAULT_SUBSCRIBE
                                              : DEFAULT_UNSUBSCRIBE;
  return d->defaults[by_default] && !bytes_starts_with(filter, BYTES_LIT("$CONTROL"));
}

bool dynsec_find(const void *ctx, const struct access_who *who, struct password_hash *out) {
  const struct dynsec *d = ctx;
  const struct object *client = object_find(d, CLIENT, who->username);
  *out = (struct password_hash){
      .kind = PASSWORD_PBKDF2, .iterations = 101, .salt_len = 12, .hash_len = PASSWORD_HASH_LEN};
  if (client != NULL && client->has_password) {
    *out = client->password;
  } else {  // costs what a check of the first client costs
    u32 i = d->first[CLIENT];
    *out = i != NONE && object_at(d, i)->has_password ? object_at(d, i)->password : *out;
    return false;
  }
  struct bytes id = object_text(client, CLIENTID);
  return !client->disabled && (id.len == 0 || bytes_equal(id, who->client_id));
}

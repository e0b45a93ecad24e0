// SPDX-License-Identifier: Apache-2.0
// Objects, the lists between them, and their memory.
//
// I1  An object is in the hash under (kind, name) and in its kind's list exactly while it is taken.
// I2  No list holds an index twice; a link's target is a taken object of the right kind.
#include "dynsec/state.h"

#include "tls/kdf.h"

#define ITERATIONS 1000u  // of new passwords: mosquitto 2.1's
#define SALT_LEN 12u

const char *const acl_type_names[ACL_TYPES] = {"publishClientSend",  "publishClientReceive",
                                               "subscribeLiteral",   "subscribePattern",
                                               "unsubscribeLiteral", "unsubscribePattern"};
const char *const default_names[DEFAULTS] = {"publishClientSend", "publishClientReceive",
                                             "subscribe", "unsubscribe"};
const char *const kind_names[KINDS] = {"client", "group", "role"};
const char *const name_fields[KINDS] = {"username", "groupname", "rolename"};

static struct span take(struct span *memory, usize len) {
  len = ALIGN_UP(len, (usize)64);
  ASSERT(len <= memory->len);
  struct span s = {memory->ptr, len};
  *memory = span_of(memory->ptr + len, memory->len - len);
  return s;
}

struct dynsec *dynsec_init(struct broker *b, struct span memory, const struct siphash_key *key,
                           void (*random)(struct span out)) {
  ASSERT(memory.len >= 512u << 10);
  struct dynsec *d = (struct dynsec *)(void *)take(&memory, sizeof(struct dynsec)).ptr;
  *d = (struct dynsec){.b = b, .key = *key, .random = random};
  d->node_max = (u32)(memory.len / NODES_SHARE / sizeof(struct json_node));
  d->node = (struct json_node *)(void *)take(&memory, d->node_max * sizeof(struct json_node)).ptr;
  d->reply = take(&memory, REPLY_MAX).ptr;
  // An object with two links and a rule, its texts in one block and the rule's topic in another.
  u32 count = (u32)(memory.len / (sizeof(struct object) + 2 * sizeof(struct link_to) +
                                  sizeof(struct acl_rule) + 3 * BLOCK_GRANULE + 64));
  u32 buckets = 16;
  while (buckets < count) {
    buckets *= 2;
  }
  d->bucket = (u32 *)(void *)take(&memory, buckets / 2 * sizeof(u32)).ptr;
  d->bucket_mask = buckets / 2 - 1;
  pool_init(&d->objects, "dynsec objects", take(&memory, pool_bytes(sizeof(struct object), count)),
            sizeof(struct object), count);
  pool_init(&d->links, "dynsec links", take(&memory, pool_bytes(sizeof(struct link_to), 2 * count)),
            sizeof(struct link_to), 2 * count);
  pool_init(&d->rules, "dynsec rules", take(&memory, pool_bytes(sizeof(struct acl_rule), count)),
            sizeof(struct acl_rule), count);
  u64 blocks = memory.len - memory.len / 64 - 4096;
  blocks_init(&d->blocks, take(&memory, (usize)blocks_bytes(blocks)), blocks);
  table_clear(d);
  return d;
}

void table_clear(struct dynsec *d) {
  for (u32 k = 0; k < KINDS; k++) {
    while (d->count[k] > 0) {
      object_delete(d, object_at(d, d->first[k]));
    }
    d->first[k] = d->last[k] = NONE;
  }
  memset(d->bucket, 0xff, (usize)(d->bucket_mask + 1) * sizeof(u32));
  d->anonymous_group = NONE;
  d->defaults[DEFAULT_SEND] = d->defaults[DEFAULT_SUBSCRIBE] = false;
  d->defaults[DEFAULT_RECEIVE] = d->defaults[DEFAULT_UNSUBSCRIBE] = true;
}

// --- objects

static u32 *bucket_of(const struct dynsec *d, enum kind kind, struct bytes name) {
  struct siphash_key key = {d->key.k0 + (u64)kind, d->key.k1};
  return &d->bucket[(u32)siphash(&key, name) & d->bucket_mask];
}

struct object *object_find(const struct dynsec *d, enum kind kind, struct bytes name) {
  u32 i = *bucket_of(d, kind, name);
  while (i != NONE) {
    struct object *o = object_at(d, i);
    if (o->kind == kind && bytes_equal(object_text(o, NAME), name)) {
      return o;
    }
    i = o->hash_next;
  }
  return NULL;
}

void dynsec_set_address(struct dynsec *d, dynsec_address *address) {
  d->address = address;
}

struct object *object_make(struct dynsec *d, enum kind kind, struct bytes name) {
  ASSERT(object_find(d, kind, name) == NULL);
  struct object *o = pool_take(&d->objects);
  if (o == NULL) {
    return NULL;
  }
  o->kind = (u8)kind;
  o->roles = o->groups = o->acls = NONE;
  o->wildcard_subs = true;
  if (!object_set_text(d, o, NAME, name)) {
    pool_put(&d->objects, o);
    return NULL;
  }
  u32 i = object_index(d, o);
  u32 *bucket = bucket_of(d, kind, name);
  o->hash_next = *bucket;
  *bucket = i;
  o->next = NONE;
  o->prev = d->last[kind];
  *(o->prev == NONE ? &d->first[kind] : &object_at(d, o->prev)->next) = i;
  d->last[kind] = i;
  d->count[kind]++;
  return o;
}

// Every list that can name it.
static void unlink_everywhere(struct dynsec *d, const struct object *o) {
  u32 i = object_index(d, o);
  for (u32 k = CLIENT; k <= GROUP; k++) {
    for (u32 at = d->first[k]; at != NONE; at = object_at(d, at)->next) {
      struct object *holder = object_at(d, at);
      (void)link_remove(d, o->kind == ROLE ? &holder->roles : &holder->groups, i);
    }
  }
  d->anonymous_group = d->anonymous_group == i ? NONE : d->anonymous_group;
}

void object_delete(struct dynsec *d, struct object *o) {
  u32 i = object_index(d, o);
  if (o->kind != CLIENT) {
    unlink_everywhere(d, o);
  }
  links_clear(d, &o->roles);
  links_clear(d, &o->groups);
  rules_clear(d, o);
  u32 *link = bucket_of(d, (enum kind)o->kind, object_text(o, NAME));
  while (*link != i) {
    ASSERT(*link != NONE);
    link = &object_at(d, *link)->hash_next;
  }
  *link = o->hash_next;
  *(o->prev == NONE ? &d->first[o->kind] : &object_at(d, o->prev)->next) = o->next;
  *(o->next == NONE ? &d->last[o->kind] : &object_at(d, o->next)->prev) = o->prev;
  d->count[o->kind]--;
  blocks_put(&d->blocks, o->text);
  mem_wipe(&o->password, sizeof o->password);
  pool_put(&d->objects, o);
}

struct bytes object_text(const struct object *o, enum field f) {
  u32 off = 0;
  if (o->text == NULL) {  // being made
    return bytes_of(NULL, 0);
  }
  for (u32 i = 0; i < (u32)f; i++) {
    off += o->len[i];
  }
  return bytes_of(o->text + off, o->len[f]);
}

bool object_set_text(struct dynsec *d, struct object *o, enum field f, struct bytes text) {
  usize total = text.len;
  for (u32 i = 0; i < FIELDS; i++) {
    total += i == (u32)f ? 0 : o->len[i];
  }
  u8 *block = text.len > U16_MAX ? NULL : blocks_take(&d->blocks, MAX(total, (usize)1));
  if (block == NULL) {
    return false;
  }
  struct writer w = writer_init(span_of(block, total));
  for (u32 i = 0; i < FIELDS; i++) {
    write_bytes(&w, i == (u32)f ? text : object_text(o, (enum field)i));
  }
  ASSERT(w.err == ERR_OK);
  if (o->text != NULL) {
    blocks_put(&d->blocks, o->text);
  }
  o->text = block;
  o->len[f] = (u16)text.len;
  return true;
}

void set_password(struct dynsec *d, struct object *client, struct bytes password) {
  struct password_hash *h = &client->password;
  struct kdf k;
  *h = (struct password_hash){.kind = PASSWORD_PBKDF2,
                              .iterations = ITERATIONS,
                              .salt_len = SALT_LEN,
                              .hash_len = PASSWORD_HASH_LEN};
  d->random(span_of(h->salt, SALT_LEN));
  kdf_pbkdf2_begin(&k, password, bytes_of(h->salt, SALT_LEN), ITERATIONS);
  bool done = kdf_step(&k, ITERATIONS);
  ASSERT(done);
  memcpy(h->hash, k.sum, sizeof h->hash);
  kdf_fini(&k);
  client->has_password = true;
}

// --- links

bool link_has(const struct dynsec *d, u32 list, u32 target) {
  while (list != NONE && link_at(d, list)->target != target) {
    list = link_at(d, list)->next;
  }
  return list != NONE;
}

bool link_add(struct dynsec *d, u32 *list, u32 target, i32 priority) {
  ASSERT(!link_has(d, *list, target));
  struct link_to *l = pool_take(&d->links);
  if (l == NULL) {
    return false;
  }
  while (*list != NONE && link_at(d, *list)->priority >= priority) {
    list = &link_at(d, *list)->next;
  }
  *l = (struct link_to){.target = target, .priority = priority, .next = *list};
  *list = pool_index(&d->links, l);
  return true;
}

bool link_remove(struct dynsec *d, u32 *list, u32 target) {
  while (*list != NONE && link_at(d, *list)->target != target) {
    list = &link_at(d, *list)->next;
  }
  if (*list == NONE) {
    return false;
  }
  struct link_to *l = link_at(d, *list);
  *list = l->next;
  pool_put(&d->links, l);
  return true;
}

void links_clear(struct dynsec *d, u32 *list) {
  while (*list != NONE) {
    struct link_to *l = link_at(d, *list);
    *list = l->next;
    pool_put(&d->links, l);
  }
}

// --- rules of roles

u32 *rule_find(struct dynsec *d, struct object *role, enum acl_type type, struct bytes topic) {
  u32 *at = &role->acls;
  while (*at != NONE) {
    struct acl_rule *r = rule_at(d, *at);
    if (r->type == type && bytes_equal(bytes_of(r->topic, r->topic_len), topic)) {
      return at;
    }
    at = &r->next;
  }
  return NULL;
}

bool rule_add(struct dynsec *d, struct object *role, enum acl_type type, struct bytes topic,
              bool allow, i32 priority) {
  ASSERT(topic.len > 0);
  ASSERT(topic.len <= U16_MAX);
  struct acl_rule *r = pool_take(&d->rules);
  u8 *text = r == NULL ? NULL : blocks_take(&d->blocks, topic.len);
  if (text == NULL) {
    if (r != NULL) {
      pool_put(&d->rules, r);
    }
    return false;
  }
  memcpy(text, topic.ptr, topic.len);
  u32 *at = &role->acls;
  while (*at != NONE && rule_at(d, *at)->priority >= priority) {
    at = &rule_at(d, *at)->next;
  }
  *r = (struct acl_rule){.topic = text,
                         .topic_len = (u16)topic.len,
                         .type = (u8)type,
                         .allow = allow,
                         .priority = priority,
                         .next = *at};
  *at = pool_index(&d->rules, r);
  return true;
}

void rule_remove(struct dynsec *d, u32 *at) {
  struct acl_rule *r = rule_at(d, *at);
  *at = r->next;
  blocks_put(&d->blocks, r->topic);
  pool_put(&d->rules, r);
}

void rules_clear(struct dynsec *d, struct object *role) {
  while (role->acls != NONE) {
    rule_remove(d, &role->acls);
  }
}

void dynsec_follow(struct dynsec *d, const struct dynsec *before) {
  d->changes = before->changes + 1;
}

struct dynsec_stats dynsec_stats(const struct dynsec *d) {
  return (struct dynsec_stats){d->count[CLIENT], d->count[GROUP], d->count[ROLE], d->changes};
}

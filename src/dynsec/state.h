// SPDX-License-Identifier: Apache-2.0
// What the files of dynsec/ share. Clients, groups and roles are one kind of object, since their
// commands are the same but for the lists they carry. Internal.
#pragma once
#include "broker/block.h"
#include "dynsec/dynsec.h"
#include "loop/pool.h"

#define NONE U32_MAX
#define PRIORITY_NONE (-1)  // not given; listed without one
#define PRIORITY_MAX 100000
#define NODES_SHARE 8u  // of the memory
#define REPLY_MAX (128u << 10)

enum kind { CLIENT, GROUP, ROLE, KINDS };
enum field { NAME, TEXTNAME, TEXTDESCRIPTION, CLIENTID, FIELDS };
enum acl_type {
  PUBLISH_SEND,
  PUBLISH_RECEIVE,
  SUBSCRIBE_LITERAL,
  SUBSCRIBE_PATTERN,
  UNSUBSCRIBE_LITERAL,
  UNSUBSCRIBE_PATTERN,
  ACL_TYPES
};
enum { DEFAULT_SEND, DEFAULT_RECEIVE, DEFAULT_SUBSCRIBE, DEFAULT_UNSUBSCRIBE, DEFAULTS };

struct object {
  u8 kind;
  bool disabled, has_password, wildcard_subs;
  u16 len[FIELDS];
  u8 *text;  // block: the fields, one behind the other
  u32 hash_next;
  u32 next, prev;                 // of its kind, in order of creation
  u32 roles;                      // links of a client or group
  u32 groups;                     // links of a client
  u32 acls;                       // of a role
  struct password_hash password;  // of a client
};
struct link_to {  // to a role or group; lists are in order of priority, highest first
  u32 target;
  i32 priority;
  u32 next;
};
struct acl_rule {
  u8 *topic;  // block
  u16 topic_len;
  u8 type;  // enum acl_type
  bool allow;
  i32 priority;
  u32 next;
};

struct dynsec {
  struct broker *b;
  struct siphash_key key;
  void (*random)(struct span out);
  dynsec_address *address;  // NULL: not known
  struct pool objects, links, rules;
  struct blocks blocks;
  u32 *bucket;
  u32 bucket_mask;
  u32 first[KINDS], last[KINDS], count[KINDS];
  u32 anonymous_group;
  bool defaults[DEFAULTS];
  u64 changes;
  struct json_node *node;
  u32 node_max;
  u8 *reply;
};

static inline struct object *object_at(const struct dynsec *d, u32 i) {
  return pool_at(&d->objects, i);
}
static inline struct link_to *link_at(const struct dynsec *d, u32 i) {
  return pool_at(&d->links, i);
}
static inline struct acl_rule *rule_at(const struct dynsec *d, u32 i) {
  return pool_at(&d->rules, i);
}

// table.c
struct object *object_find(const struct dynsec *d, enum kind kind, struct bytes name);
// NULL: no room. The name is new (asserted).
struct object *object_make(struct dynsec *d, enum kind kind, struct bytes name);
// Takes it out of every list too.
void object_delete(struct dynsec *d, struct object *o CONSUMES);
struct bytes object_text(const struct object *o, enum field f);
bool object_set_text(struct dynsec *d, struct object *o, enum field f, struct bytes text);
static inline u32 object_index(const struct dynsec *d, const struct object *o) {
  return pool_index(&d->objects, o);
}
bool link_add(struct dynsec *d, u32 *list, u32 target, i32 priority);  // false: no room
bool link_remove(struct dynsec *d, u32 *list, u32 target);             // false: not there
bool link_has(const struct dynsec *d, u32 list, u32 target);
void links_clear(struct dynsec *d, u32 *list);
bool rule_add(struct dynsec *d, struct object *role, enum acl_type type, struct bytes topic,
              bool allow, i32 priority);
u32 *rule_find(struct dynsec *d, struct object *role, enum acl_type type, struct bytes topic);
void rule_remove(struct dynsec *d, u32 *link);
void rules_clear(struct dynsec *d, struct object *role);
void table_clear(struct dynsec *d);
void set_password(struct dynsec *d, struct object *client, struct bytes password);

extern const char *const acl_type_names[ACL_TYPES];
extern const char *const default_names[DEFAULTS];

// fill.c: objects out of JSON. Each returns NULL or an error's text.
const char *fill_roles(struct dynsec *d, const struct json *j, u32 array, u32 *list);
const char *fill_groups(struct dynsec *d, const struct json *j, u32 array, u32 *list);
const char *fill_clients(struct dynsec *d, const struct json *j, u32 array, struct object *group);
const char *fill_acls(struct dynsec *d, const struct json *j, u32 array, struct object *role);
const char *fill_acl(const struct json *j, u32 node, enum acl_type *type, struct bytes *topic,
                     struct span buf);
const char *fill_texts(struct dynsec *d, const struct json *j, u32 node, struct object *o);
const char *fill_defaults(struct dynsec *d, const struct json *j, u32 array);
// A member that is a string, decoded into buf (borrowed from it). False: absent or none.
bool text_member(const struct json *j, u32 node, const char *name, struct span buf,
                 struct bytes *out);
// Absent: PRIORITY_NONE. False: out of range.
bool priority_member(const struct json *j, u32 node, i32 *out);

// show.c: objects into JSON.
enum show {
  SHOW_NAME,
  SHOW_FIELDS,
  SHOW_CONNECTIONS,  // and a client's connections: a walk over all sessions
};
void show_object(const struct dynsec *d, const struct object *o, enum show show,
                 struct json_out *out);
void show_defaults(const struct dynsec *d, struct json_out *out);
extern const char *const kind_names[KINDS];   // "client" ...
extern const char *const name_fields[KINDS];  // "username" ...

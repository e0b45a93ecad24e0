// SPDX-License-Identifier: Apache-2.0
// The keywords of the configuration as one table: name, scope, what takes the value, where it goes,
// and what becomes of it here. The table's parts stand in keyword_*.c, each ended by a row without
// a name; a new keyword is a row there and, when its value is of no usual kind, a function. Private
// to the parser (config.c), but for keyword_find and keyword_fate, which urmqtt-stamp uses.
#pragma once
#include "admin/conf.h"
#include "admin/config.h"

#define CONFIG_MOUNT_MAX 200u  // SERVER_MOUNT_MAX
#define CONFIG_ID_PREFIX_MAX 32u

enum keyword_scope {
  SCOPE_GLOBAL,    // struct config
  SCOPE_LISTENER,  // the listener before it, else the one on port 1883 that mosquitto implies
  SCOPE_SECURITY,  // struct config_security: all listeners', or after per_listener_settings true
                   // the listener's
  SCOPE_BRIDGE,    // the `connection` before it
};
enum keyword_fate {
  FATE_KEPT,     // means here what it means in mosquitto
  FATE_MAPPED,   // something like it is done: `why` says what; a note
  FATE_IGNORED,  // changes nothing here, `why`; a warning
  FATE_REFUSED,  // to ignore it would open the broker or break what users rely on; an error
};

struct keyword;
struct parser {
  struct bytes tar;
  struct config *config;
  struct config_report *report;
  struct bytes file;  // name of the file being read
  struct bytes text;
  struct conf_line line;
  u32 pos, number;                  // where conf_next stands in `text`
  const struct keyword *k;          // the keyword being taken
  struct config_listener *current;  // the last listener; NULL: none yet
  struct config_listener implied;   // on port 1883, when keywords stand before any listener
  bool implied_used, log_types_set;
  struct {  // include_dir: `text` is a file of folder `dir`, what comes after it stands here
    bool active;
    struct bytes dir, file, text;
    u32 pos, number;
  } outer;
};
struct keyword {
  const char *name;  // one that ends in '_' stands for every word that begins so
  // `field` is the target, inside the structure of the scope. NULL for what is not honoured.
  void (*take)(struct parser *p, void *field);
  u32 at;           // offset of the target in the scope's structure
  u32 least, most;  // of a number; most 0 = its type's
  const char *why;
  u8 scope;   // enum keyword_scope
  u8 fate;    // enum keyword_fate
  bool told;  // `take` itself says what becomes of it
};

// The scope, target and function of a row whose value is of a usual kind, chosen by the type of the
// field that it fills.
// clang-format off
#define KEYWORD_FIELD(which, type, field)        \
  .scope = (which), .at = OFFSETOF(type, field), \
  .take = _Generic(((type *)0)->field,           \
                   bool: take_bool,              \
                   u8: take_u8,                  \
                   u32: take_u32,                \
                   u64: take_u64,                \
                   struct bytes: take_text,      \
                   struct config_file: take_file, \
                   struct config_files: take_files)
// clang-format on
#define IN_CONFIG(field) KEYWORD_FIELD(SCOPE_GLOBAL, struct config, field)
#define IN_LISTENER(field) KEYWORD_FIELD(SCOPE_LISTENER, struct config_listener, field)
#define IN_BRIDGE(field) KEYWORD_FIELD(SCOPE_BRIDGE, struct config_bridge, field)
#define IN_SECURITY(field) KEYWORD_FIELD(SCOPE_SECURITY, struct config_security, field)
// The same with a function of its own.
#define BY(which, type, field, function) \
  .scope = (which), .at = OFFSETOF(type, field), .take = (function)

// For rows whose function says what becomes of the line.
#define MAPPED(text) .fate = FATE_MAPPED, .why = (text), .told = true

// The parts of the table.
extern const struct keyword keywords_listener[];  // keyword_listener.c
extern const struct keyword keywords_front[];     // keyword_front.c: WebSocket, PROXY protocol
extern const struct keyword keywords_broker[];    // keyword_broker.c: limits, sessions, storage
extern const struct keyword keywords_security[];  // keyword_security.c: who may come in
extern const struct keyword keywords_plugin[];    // keyword_plugin.c
extern const struct keyword keywords_bridge[];    // keyword_bridge.c
extern const struct keyword keywords_system[];    // keyword_system.c: network, logs, process

// The row of a word; NULL: there is none.
const struct keyword *keyword_find(struct bytes word);
// The keyword that `word` resembles most; NULL: none.
const char *keyword_nearest(struct bytes word);
const char *keyword_fate(enum keyword_fate fate);

// --- for the functions of rows

// Adds a complaint about the present line.
void problem(struct parser *p, enum config_severity severity, const char *format, ...)
    PRINTF_LIKE(3, 4);
struct bytes value_of(const struct parser *p);
// A word of foreign text for a message, escaped and short.
const char *shown(struct bytes b, char buf[64]);
// Cuts the next word, ended by spaces, off the front of *rest; empty at the end.
struct bytes next_word(struct bytes *rest);
// False: said. The value as a number of the row's range.
bool take_number(struct parser *p, u64 least, u64 most, u64 *out);
// Each leaves the field as it is when the value is wrong, so that one mistake is one error.
void take_bool(struct parser *p, void *field);
void take_u8(struct parser *p, void *field);
void take_u32(struct parser *p, void *field);
void take_u64(struct parser *p, void *field);
void take_choice(struct parser *p, void *field);      // u8: 1 = false, 2 = true
void take_text(struct parser *p, void *field);        // struct bytes, not empty
void take_file(struct parser *p, void *field);        // struct config_file: a file of the bundle
void take_positive(struct parser *p, void *field);    // u32 above 0, or -1: no limit, 0 here
void take_files(struct parser *p, void *field);       // struct config_files: those of a folder
void take_id_prefix(struct parser *p, void *field);   // struct bytes, short
void take_durability(struct parser *p, void *field);  // bool: relaxed
void take_limit(struct parser *p, void *field);       // u32; 0 is the row's most
// The next file of the bundle, by the bytes of its name, that lies in folder `dir` (a path as in
// mosquitto.conf; of its whole path or of its last name) behind `after`; false: no more. `suffix`
// ends its name.
bool folder_next(struct bytes tar, struct bytes dir, const char *suffix, struct bytes after,
                 struct bytes *name, struct bytes *data);
// A listener as mosquitto has it before any keyword.
struct config_listener config_listener_default(void);

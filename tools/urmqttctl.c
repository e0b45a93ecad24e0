// SPDX-License-Identifier: Apache-2.0
// The console over MQTT (docs/formats/control.md) for people and scripts: one command a call. Exit
// codes: 0 done, 1 failed, 2 wrong usage.
#include <getopt.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/utf8.h"
#include "ctl_ask.h"
#include "ctl_config.h"
#include "ctl_link.h"
#include "ctl_table.h"

#define PAGE 100

static struct ctl_options options = {.host = "localhost"};
static bool all, follow;
static long since, seconds;
static volatile sig_atomic_t stopped;  // by a signal, or there is no more to come

void die(const char *what, const char *why) {
  fflush(stdout);
  fprintf(stderr, "urmqttctl: %s: %s\n", what, why);
  exit(1);
}

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "urmqttctl: assertion failed at %s: %s\n", where, what);
  abort();
}

static void usage(FILE *to) {
  fprintf(
      to,
      "usage: urmqttctl [OPTIONS] COMMAND\n"
      "commands:\n"
      "  clients [--all]        who is connected; --all: sessions without a connection too\n"
      "  client ID              one session in full\n"
      "  subscriptions ID       what it has subscribed to\n"
      "  kick ID                end its connection\n"
      "  drops ID               its messages that were dropped, by reason\n"
      "  trace ID [--seconds N] its packets in both directions, for 60 seconds or N (1 to 300)\n"
      "  bridges                connections to other brokers\n"
      "  metrics                every counter, as Prometheus text\n"
      "  logs [-f] [--since N]  the console's last lines, from number N on; -f: and those to come\n"
      "  reload                 read the configuration again\n"
      "  commands               what the broker understands\n"
      "options:\n"
      "  -h HOST                the broker; localhost\n"
      "  -p PORT                8883 with --cafile, else 1883\n"
      "  --cafile F             TLS: the CA of the broker's certificate\n"
      "  --cert F --key F       TLS: a certificate of your own\n"
      "  -u USER -P PASSWORD    without -P: $URMQTT_PASSWORD\n"
      "  --json                 JSON instead of tables; of a list one line an entry\n"
      "The broker answers users that its urmqtt.conf names by `console_user`.\n"
      "example: urmqttctl -h 10.0.0.5 --cafile ca.crt --cert me.crt --key me.key clients\n");
}

static void wrong(const char *what, const char *why) {
  fprintf(stderr, "urmqttctl: %s: %s\n", what, why);
  usage(stderr);
  exit(2);
}

// --- asking

static u32 ask(const char *command, const char *client) {
  ctl_begin(command);
  if (client != NULL) {
    json_field_string(&ctl_request, "clientid", bytes_str(client));
  }
  u32 data = ctl_send();
  ctl_check(client != NULL ? client : command);
  return data;
}

// Every page of a list. A page that does not fit into an answer is asked for again by halves.
static void list(const char *command, const char *key, const char *client,
                 const struct ctl_column *columns, const char *only) {
  i64 count = PAGE;
  u32 got = 0;
  for (i64 offset = 0;; offset += got) {
    ctl_begin(command);
    if (client != NULL) {
      json_field_string(&ctl_request, "clientid", bytes_str(client));
    }
    json_field_int(&ctl_request, "offset", offset);
    json_field_int(&ctl_request, "count", count);
    json_field_bool(&ctl_request, "verbose", true);
    u32 data = ctl_send();
    got = 0;
    if (ctl_fault != NULL && strstr(ctl_fault, "too long") != NULL && count > 1) {
      count /= 2;
      continue;
    }
    ctl_check(client != NULL ? client : command);
    u32 array = json_member(&ctl_answer, data, key);
    for (u32 i = json_first(&ctl_answer, array); i != JSON_NONE;
         i = json_after(&ctl_answer, array, i), got++) {
      bool wanted = true;
      if (only != NULL && json_bool(&ctl_answer, json_member(&ctl_answer, i, only), &wanted) &&
          !wanted) {
        continue;
      }
      if (options.json) {
        ctl_raw(i);
      } else {
        ctl_row(columns, &ctl_answer, i);
      }
    }
    if (got < count) {
      break;
    }
  }
  if (!options.json) {
    ctl_print_rows(columns);
  }
}

// --- commands

static void clients(char **arg) {
  static const struct ctl_column columns[] = {
      {"clientid", "CLIENT", false},  {"username", "USER", false},     {"connected", "CONN", false},
      {"protocol", "MQTT", true},     {"address", "ADDRESS", false},   {"port", "PORT", true},
      {"tls", "TLS", false},          {"subscriptions", "SUBS", true}, {"queued", "QUEUED", true},
      {"inflight", "INFLIGHT", true}, {"idleSeconds", "IDLE s", true}, {NULL, NULL, false}};
  (void)arg;
  list("listClients", "clients", NULL, columns, all ? NULL : "connected");
}

static void client(char **arg) {
  u32 data = ask("getClient", arg[0]);
  u32 one = json_member(&ctl_answer, data, "client");
  if (options.json) {
    ctl_raw(one);
  } else {
    ctl_print_object(&ctl_answer, one);
  }
}

static void subscriptions(char **arg) {
  static const struct ctl_column columns[] = {{"topic", "TOPIC", false},
                                              {"qos", "QOS", true},
                                              {"group", "GROUP", false},
                                              {"noLocal", "NO LOCAL", false},
                                              {"retainAsPublished", "RETAIN AS PUBLISHED", false},
                                              {"identifier", "IDENTIFIER", true},
                                              {NULL, NULL, false}};
  list("listSubscriptions", "subscriptions", arg[0], columns, NULL);
}

static void kick(char **arg) {
  (void)ask("kickClient", arg[0]);
}

static void drops(char **arg) {
  u32 data = ask("whyDropped", arg[0]);
  u32 dropped = json_member(&ctl_answer, data, "dropped");
  if (options.json) {
    ctl_raw(dropped);
  } else {
    ctl_print_object(&ctl_answer, dropped);
  }
}

static void bridges(char **arg) {
  static const struct ctl_column columns[] = {
      {"name", "BRIDGE", false},  {"connected", "CONN", false}, {"attempts", "ATTEMPTS", true},
      {"messagesIn", "IN", true}, {"messagesOut", "OUT", true}, {"dropped", "DROPPED", true},
      {"last", "LAST", false},    {NULL, NULL, false}};
  (void)arg;
  u32 data = ask("listBridges", NULL);
  u32 array = json_member(&ctl_answer, data, "bridges");
  for (u32 i = json_first(&ctl_answer, array); i != JSON_NONE;
       i = json_after(&ctl_answer, array, i)) {
    if (options.json) {
      ctl_raw(i);
    } else {
      ctl_row(columns, &ctl_answer, i);
    }
  }
  if (!options.json) {
    ctl_print_rows(columns);
  }
}

static void metrics(char **arg) {
  static u8 text[1 << 17];
  struct bytes s;
  (void)arg;
  u32 data = ask("getMetrics", NULL);
  if (options.json) {
    ctl_raw(data);
  } else if (json_string(&ctl_answer, json_member(&ctl_answer, data, "text"),
                         span_of(text, sizeof text), &s)) {
    fwrite(s.ptr, 1, s.len, stdout);
  }
}

static void print_line(u32 line) {
  i64 unix_s = 0;
  char when[32];
  struct tm tm;
  (void)json_int(&ctl_answer, json_member(&ctl_answer, line, "time"), 0, INT64_MAX, &unix_s);
  time_t t = (time_t)unix_s;
  strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r(&t, &tm));
  char *text = ctl_text(&ctl_answer, json_member(&ctl_answer, line, "text"));
  printf("%s  %s\n", when, text);
  free(text);
}

static void logs(char **arg) {
  (void)arg;
  for (i64 at = since; stopped == 0;) {
    i64 next = at;
    ctl_begin("getLogs");
    json_field_int(&ctl_request, "since", at);
    u32 data = ctl_send();
    ctl_check("getLogs");
    u32 lines = json_member(&ctl_answer, data, "lines");
    (void)json_int(&ctl_answer, json_member(&ctl_answer, data, "next"), 0, INT64_MAX, &next);
    for (u32 i = json_first(&ctl_answer, lines); i != JSON_NONE;
         i = json_after(&ctl_answer, lines, i)) {
      if (options.json) {
        ctl_raw(i);
      } else {
        print_line(i);
      }
    }
    u32 got = json_count(&ctl_answer, lines);
    // Every question is itself a line of the log: without -f, that line is the end.
    if (got < PAGE && !follow) {
      return;
    }
    fflush(stdout);
    at = next;
    if (got < PAGE) {
      ctl_wait(1000);
    }
  }
}

// One packet as a line: time, direction, type, then what there is. Its end ends the program.
static void print_packet(struct bytes text) {
  static const char *const fields[] = {"flags", "packetId", "topic", "length", "payload"};
  static struct json_node nodes[64];
  struct json j;
  struct json_fault f;
  i64 unix_s = 0;
  i64 ms = 0;
  struct tm tm;
  char when[32];
  if (json_parse(text, nodes, ARRAY_COUNT(nodes), &j, &f) != ERR_OK) {
    return;
  }
  stopped = json_member(&j, 0, "end") != JSON_NONE ? 1 : stopped;
  if (options.json || json_member(&j, 0, "type") == JSON_NONE) {
    printf("%.*s\n", (int)text.len, (const char *)text.ptr);
    return;
  }
  (void)json_int(&j, json_member(&j, 0, "time"), 0, INT64_MAX, &unix_s);
  (void)json_int(&j, json_member(&j, 0, "ms"), 0, 999, &ms);
  time_t t = (time_t)unix_s;
  strftime(when, sizeof when, "%H:%M:%S", localtime_r(&t, &tm));
  printf("%s.%03d  %-3s  %-11s", when, (int)ms, ctl_text(&j, json_member(&j, 0, "direction")),
         ctl_text(&j, json_member(&j, 0, "type")));
  for (u32 i = 0; i < ARRAY_COUNT(fields); i++) {
    u32 node = json_member(&j, 0, fields[i]);
    if (node != JSON_NONE) {
      printf("  %s %s", fields[i], ctl_text(&j, node));
    }
  }
  printf("\n");
}

static void do_trace(char **arg) {
  ctl_on_trace(print_packet);
  ctl_begin("traceClient");
  json_field_string(&ctl_request, "clientid", bytes_str(arg[0]));
  json_field_int(&ctl_request, "seconds", seconds != 0 ? seconds : 60);
  (void)ctl_send();
  ctl_check(arg[0]);
  while (stopped == 0) {
    ctl_wait(100);
    fflush(stdout);
  }
}

static void do_reload(char **arg) {
  (void)arg;
  (void)ask("reload", NULL);
  puts("reloaded");
}

static void commands(char **arg) {
  static const struct ctl_column columns[] = {
      {"command", "COMMAND", false}, {"what", "WHAT", false}, {NULL, NULL, false}};
  (void)arg;
  u32 data = ask("listCommands", NULL);
  u32 array = json_member(&ctl_answer, data, "commands");
  for (u32 i = json_first(&ctl_answer, array); i != JSON_NONE;
       i = json_after(&ctl_answer, array, i)) {
    if (options.json) {
      ctl_raw(i);
    } else {
      ctl_row(columns, &ctl_answer, i);
    }
  }
  if (!options.json) {
    ctl_print_rows(columns);
  }
}

// --- the command line

static const struct {
  const char *name;
  void (*run)(char **arg);
  int args;
} table[] = {
    {"clients", clients, 0},  {"client", client, 1},     {"subscriptions", subscriptions, 1},
    {"kick", kick, 1},        {"drops", drops, 1},       {"trace", do_trace, 1},
    {"bridges", bridges, 0},  {"metrics", metrics, 0},   {"logs", logs, 0},
    {"reload", do_reload, 0}, {"commands", commands, 0},
};

static long number(const char *name, const char *text, long most) {
  char *end;
  long v = strtol(text, &end, 10);
  if (*text == 0 || *end != 0 || v < 0 || v > most) {
    wrong(name, "is no number, or too large");
  }
  return v;
}

static void take_option(int c) {
  switch (c) {
  case 'S':
    seconds = number("--seconds", optarg, 600);
    ctl_config_seconds = (u32)seconds;
    break;
  case 'c': ctl_config_confirm_at_once = true; break;
  case 'h': options.host = optarg; break;
  case 'p': options.port = (int)number("-p", optarg, 65535); break;
  case 'u': options.user = optarg; break;
  case 'P': options.password = optarg; break;
  case 'f': follow = true; break;
  case 'A': options.cafile = optarg; break;
  case 'C': options.cert = optarg; break;
  case 'K': options.key = optarg; break;
  case 'J': options.json = true; break;
  case 'a': all = true; break;
  case 's': since = number("--since", optarg, 1000000000); break;
  case 'H': usage(stdout); exit(0);
  default: usage(stderr); exit(2);
  }
}

static void on_signal(int number_of_it) {
  (void)number_of_it;
  stopped = 1;
}

static void check_options(void) {
  if ((options.cert == NULL) != (options.key == NULL)) {
    wrong(options.cert == NULL ? "--key" : "--cert", "wants both --cert and --key");
  }
  if (options.cert != NULL && options.cafile == NULL) {
    wrong("--cert", "wants --cafile too");
  }
  if (options.password != NULL && options.user == NULL) {
    wrong("-P", "wants -u too");
  }
  if (options.user != NULL && options.password == NULL) {
    options.password = getenv("URMQTT_PASSWORD");
  }
}

static void run(void (*command)(char **arg), char **arg) {
  signal(SIGINT, on_signal);
  signal(SIGTERM, on_signal);
  ctl_connect(&options);
  command(arg);
  ctl_close();
  exit(fflush(stdout) == 0 ? 0 : 1);
}

static void config(int argc, char **argv) {
  const struct ctl_config_command *c = argc > 0 ? ctl_config_find(argv[0]) : NULL;
  if (c == NULL) {
    wrong("config", "wants show, get, put, confirm, diff or rollback");
  }
  if (argc - 1 != c->args) {
    wrong(argv[0], c->args == 1 ? "wants one folder" : "wants nothing more");
  }
  ctl_config_options = &options;
  run(c->run, argv + 1);
}

int main(int argc, char **argv) {
  static const struct option longs[] = {
      {"cafile", required_argument, NULL, 'A'}, {"cert", required_argument, NULL, 'C'},
      {"key", required_argument, NULL, 'K'},    {"json", no_argument, NULL, 'J'},
      {"all", no_argument, NULL, 'a'},          {"seconds", required_argument, NULL, 'S'},
      {"confirm", no_argument, NULL, 'c'},      {"since", required_argument, NULL, 's'},
      {"help", no_argument, NULL, 'H'},         {NULL, 0, NULL, 0}};
  for (int c; (c = getopt_long(argc, argv, "h:p:u:P:f", longs, NULL)) != -1;) {
    take_option(c);
  }
  check_options();
  if (optind == argc) {
    wrong("COMMAND", "is missing");
  }
  if (strcmp(argv[optind], "config") == 0) {
    config(argc - optind - 1, argv + optind + 1);
  }
  for (u32 i = 0; i < ARRAY_COUNT(table); i++) {
    if (strcmp(argv[optind], table[i].name) != 0) {
      continue;
    }
    char **arg = argv + optind + 1;
    if (argc - optind - 1 != table[i].args) {
      wrong(table[i].name, table[i].args == 1 ? "wants one client ID" : "wants nothing more");
    }
    if (table[i].args == 1 && !utf8_valid((const u8 *)arg[0], (u32)strlen(arg[0]))) {
      wrong(table[i].name, "the client ID is no UTF-8");
    }
    run(table[i].run, arg);
  }
  wrong(argv[optind], "is no command");
}

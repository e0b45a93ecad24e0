// SPDX-License-Identifier: Apache-2.0
// One connection by libmosquitto, driven by hand: no thread, every wait bounded.
#include "ctl_link.h"

#include <errno.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONNECT_S 10
#define SILENCE_S 5  // after the broker has taken a command

static struct {
  struct mosquitto *m;
  char where[300];
  char log[256];  // the library's last complaint
  bool connected, taken, answered;
  int refused;  // a reason code
  u8 answer[1 << 17];
  u32 answer_len;
  void (*trace)(struct bytes line);
} peer;

const char *ctl_where(void) {
  return peer.where;
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void on_log(struct mosquitto *m, void *ctx, int level, const char *text) {
  (void)m;
  (void)ctx;
  if (level == MOSQ_LOG_ERR) {
    snprintf(peer.log, sizeof peer.log, "%s", text);
  }
}

static void on_connect(struct mosquitto *m, void *ctx, int code, int flags,
                       const mosquitto_property *p) {
  (void)m;
  (void)ctx;
  (void)flags;
  (void)p;
  peer.connected = code == 0;
  peer.refused = code;
}

static void on_publish(struct mosquitto *m, void *ctx, int id, int code,
                       const mosquitto_property *p) {
  (void)m;
  (void)ctx;
  (void)id;
  (void)p;
  peer.taken = true;
  peer.refused = code >= 128 ? code : 0;
}

static void on_message(struct mosquitto *m, void *ctx, const struct mosquitto_message *msg,
                       const mosquitto_property *p) {
  (void)m;
  (void)ctx;
  (void)p;
  u32 len = (u32)msg->payloadlen;
  if (strcmp(msg->topic, CTL_TOPIC "/trace") == 0 && peer.trace != NULL) {
    peer.trace(bytes_of(msg->payload, len));
  } else if (strcmp(msg->topic, CTL_TOPIC "/response") == 0 && len <= sizeof peer.answer) {
    memcpy(peer.answer, msg->payload, len);
    peer.answer_len = len;
    peer.answered = true;
  }
}

static void failed(int rc) {
  char why[600];
  if (peer.refused != 0) {
    snprintf(why, sizeof why, "the broker refused: %s", mosquitto_reason_string(peer.refused));
  } else if (rc == MOSQ_ERR_CONN_LOST) {
    snprintf(why, sizeof why, "the broker closed the connection%s%s", peer.log[0] ? ": " : "",
             peer.log);
  } else {
    snprintf(why, sizeof why, "%s%s%s",
             rc == MOSQ_ERR_ERRNO ? strerror(errno) : mosquitto_strerror(rc),
             peer.log[0] ? ": " : "", peer.log);
  }
  die(peer.where, why);
}

static void turn(int ms) {
  int rc = mosquitto_loop(peer.m, ms, 1);
  if (rc != MOSQ_ERR_SUCCESS) {
    failed(rc);
  }
}

static void check_file(const char *path) {
  FILE *f = path != NULL ? fopen(path, "re") : NULL;
  if (path != NULL && f == NULL) {
    die(path, strerror(errno));
  }
  if (f != NULL) {
    fclose(f);
  }
}

static void set_tls(const struct ctl_options *o) {
  check_file(o->cafile);
  check_file(o->cert);
  check_file(o->key);
  int rc = mosquitto_tls_set(peer.m, o->cafile, NULL, o->cert, o->key, NULL);
  if (rc != MOSQ_ERR_SUCCESS) {
    die("--cafile, --cert, --key", mosquitto_strerror(rc));
  }
}

void ctl_connect(const struct ctl_options *o) {
  int port = o->port != 0 ? o->port : o->cafile != NULL ? 8883 : 1883;
  snprintf(peer.where, sizeof peer.where, "%s:%d", o->host, port);
  mosquitto_lib_init();
  peer.connected = false;
  peer.m = mosquitto_new(NULL, true, NULL);
  if (peer.m == NULL) {
    die(peer.where, strerror(errno));
  }
  mosquitto_log_callback_set(peer.m, on_log);
  mosquitto_connect_v5_callback_set(peer.m, on_connect);
  mosquitto_publish_v5_callback_set(peer.m, on_publish);
  mosquitto_message_v5_callback_set(peer.m, on_message);
  mosquitto_int_option(peer.m, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  if (o->cafile != NULL) {
    set_tls(o);
  }
  if (o->user != NULL) {
    mosquitto_username_pw_set(peer.m, o->user, o->password);
  }
  int rc = mosquitto_connect(peer.m, o->host, port, 60);
  if (rc != MOSQ_ERR_SUCCESS) {
    failed(rc);
  }
  for (double end = now_s() + CONNECT_S; !peer.connected;) {
    if (now_s() > end) {
      die(peer.where, "no answer to CONNECT within 10 s");
    }
    turn(200);
  }
}

struct bytes ctl_ask(struct bytes request) {
  peer.answered = peer.taken = false;
  int rc =
      mosquitto_publish_v5(peer.m, NULL, CTL_TOPIC, (int)request.len, request.ptr, 1, false, NULL);
  if (rc != MOSQ_ERR_SUCCESS) {
    failed(rc);
  }
  double end = now_s() + CONNECT_S;
  for (bool seen = false; !peer.answered;) {
    if (peer.refused != 0) {
      failed(0);
    }
    if (peer.taken && !seen) {
      seen = true;
      end = now_s() + SILENCE_S;
    }
    if (now_s() > end) {
      die(peer.where, peer.taken ? "no answer: is this user named by a console_user line there?"
                                 : "the command was not acknowledged within 10 s");
    }
    turn(200);
  }
  return bytes_of(peer.answer, peer.answer_len);
}

void ctl_on_trace(void (*take)(struct bytes line)) {
  peer.trace = take;
}

void ctl_wait(int ms) {
  for (double end = now_s() + ms / 1000.0; now_s() < end;) {
    int left = (int)((end - now_s()) * 1000) + 1;
    turn(left < 200 ? left : 200);
  }
}

void ctl_close(void) {
  mosquitto_disconnect(peer.m);
  (void)mosquitto_loop(peer.m, 100, 1);
  mosquitto_destroy(peer.m);
  mosquitto_lib_cleanup();
}

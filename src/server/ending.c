// SPDX-License-Identifier: Apache-2.0
// The end of connections. Ten thousand may end at once, each with a session and its subscriptions
// to take apart: a turn does ENDING_WORK of it, so that who stays does not wait for those who go.
//
// E1  A connection is told and closed before its session is taken apart; it holds nothing of tcp
//     then, and its session takes part in routing until broker_detach.
// E2  What a turn did not get to stands in `ending`, in the order in which it came.
#include "server/conn.h"

// In subscriptions taken out of the index, 0.3 us each; a connection counts for CONN_WORK, whoever
// is given something to send by its will for as much.
#define ENDING_WORK 256u
#define CONN_WORK 2u

// [MQTT-3.14.0-1] [MQTT-3.14.2-2]
static void say_goodbye(struct conn *c) {
  u8 bytes[CONN_FAREWELL_MAX];
  struct mqtt_prop_out list[3];
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  conn_farewell(c, (enum mqtt_reason)c->reason, list);
  mqtt_encode_disconnect(&w, MQTT_V5, (enum mqtt_reason)c->reason, list);
  if (w.err != ERR_OK || w.pos > c->packet_max) {  // [MQTT-3.14.2-3]
    w = writer_init(span_of(bytes, sizeof bytes));
    mqtt_encode_disconnect(&w, MQTT_V5, (enum mqtt_reason)c->reason, NULL);
  }
  ASSERT(w.err == ERR_OK);
  (void)conn_send(c, writer_bytes(&w));
  c->server->stats.packets_sent[MQTT_DISCONNECT]++;
}

static void close_tcp(struct conn *c) {
  if (c->tcp != NULL) {
    bool told = c->version == MQTT_V5 && c->reason != MQTT_SUCCESS && !c->mid_packet;
    if (told && (c->tls != NULL || !c->tls_due)) {
      say_goodbye(c);
    }
    front_close(c);
    conn_send_alert(c, c->alert);
    tcp_close(c->tcp);
    c->tcp = NULL;
  }
}

// False: this turn has had its share.
static bool work_left(struct server *s) {
  if (s->ending_turn != s->core->turns) {
    s->ending_turn = s->core->turns;
    s->ending_work = 0;
  }
  return s->ending_work < ENDING_WORK;
}

// False: its session has more than this turn may take apart.
static bool finish(struct conn *c) {
  struct server *s = c->server;
  close_tcp(c);
  while (c->session != NULL && broker_shed(c->session)) {
    s->ending_work += BROKER_SHED;
    if (!work_left(s)) {
      return false;
    }
  }
  u32 wakes = s->output_wakes;
  conn_free(c);
  s->ending_work += CONN_WORK * (1 + s->output_wakes - wakes);
  return true;
}

void ending_run(struct server *s) {
  while (!list_empty(&s->ending) && work_left(s)) {
    struct link *l = list_pop(&s->ending);
    if (!finish(CONTAINER_OF(l, struct conn, work))) {
      list_push_front(&s->ending, l);
    }
  }
}

void ending_lost(struct conn *c) {
  struct server *s = c->server;
  ASSERT(c->tcp == NULL);
  if (c->state == CONN_ENDING) {
    return;  // E2
  }
  if (list_empty(&s->ending) && work_left(s) && finish(c)) {
    return;
  }
  conn_end(c, MQTT_SUCCESS);
}

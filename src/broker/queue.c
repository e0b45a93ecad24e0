// SPDX-License-Identifier: Apache-2.0
// A session's queues. Three classes of output: control packets, QoS 0, QoS 1 and 2; the last waits
// for the client's receive maximum, the others do not.
#include "broker/state.h"

void queue_push(struct queue *q, struct delivery *d) {
  d->next = NULL;
  if (q->last != NULL) {
    q->last->next = d;
  } else {
    q->first = d;
  }
  q->last = d;
}

struct delivery *queue_pop(struct queue *q) {
  struct delivery *d = q->first;
  if (d != NULL) {
    q->first = d->next;
    q->last = q->first == NULL ? NULL : q->last;
    d->next = NULL;
  }
  return d;
}

void session_wake(struct session *s) {
  if (s->user != NULL && !s->awake) {
    s->awake = true;
    s->broker->ops.wake(s->user);
  }
}

void delivery_free(struct broker *b, struct delivery *d) {
  if (d->m != NULL) {
    message_unref(b, d->m);
  }
  pool_put(&b->deliveries, d);
}

static bool dropped(struct session *s) {  // drop policy: newest; counted by client and in all
  s->dropped++;
  s->broker->stats.publish_dropped++;
  return false;
}

bool session_deliver(struct session *s, struct message *m, u8 qos, bool retain, const u32 *ids,
                     u32 id_count) {
  struct broker *b = s->broker;
  u32 most = MIN(b->limits.session_queued_max, QUEUE_SPAN);
  if (s->user == NULL && qos == 0) {
    return false;  // offline sessions are kept QoS 1 and 2 only
  }
  if (s->queued_count >= most + b->limits.session_inflight_max ||
      s->queued_count + s->inflight_count >= QUEUE_SPAN) {
    return dropped(s);
  }
  struct delivery *d = pool_take_raw(&b->deliveries);
  if (d == NULL) {
    return dropped(s);
  }
  *d = (struct delivery){.m = m, .qos = qos, .flags = retain ? DELIVERY_RETAIN : 0};
  for (u32 i = 0; i < id_count; i++) {
    d->sub_id[i] = ids[i];
  }
  if (qos > 0) {
    d->pid = (u16)(1 + s->sequence++ % 65535);
  }
  message_ref(m);
  queue_push(&s->out[qos == 0 ? OUT_QOS0 : OUT_QOS12], d);
  s->queued_count++;
  session_wake(s);
  return true;
}

bool session_control(struct session *s, enum mqtt_type type, u16 pid, enum mqtt_reason reason) {
  struct delivery *d = pool_take_raw(&s->broker->deliveries);
  if (d == NULL) {
    return false;
  }
  *d = (struct delivery){.pid = pid, .qos = (u8)type, .flags = (u8)reason};
  queue_push(&s->out[OUT_CONTROL], d);
  session_wake(s);
  return true;
}

bool session_raw(struct session *s, struct bytes packet) {
  struct broker *b = s->broker;
  struct delivery *d = pool_take_raw(&b->deliveries);
  struct message *m = d == NULL ? NULL : message_new(b, bytes_of(NULL, 0), 0, (u32)packet.len);
  if (m == NULL) {
    if (d != NULL) {
      pool_put(&b->deliveries, d);
    }
    return false;
  }
  memcpy(m->data, packet.ptr, packet.len);
  *d = (struct delivery){.m = m, .flags = DELIVERY_RAW};
  queue_push(&s->out[OUT_CONTROL], d);
  session_wake(s);
  return true;
}

static void drop_queue(struct broker *b, struct queue *q) {
  for (struct delivery *d = queue_pop(q); d != NULL; d = queue_pop(q)) {
    delivery_free(b, d);
  }
}

void session_drop_queues(struct session *s) {
  for (u32 i = 0; i < OUT_COUNT; i++) {
    drop_queue(s->broker, &s->out[i]);
  }
  drop_queue(s->broker, &s->inflight);
  struct queue received = {s->received, NULL};
  while (received.first != NULL) {
    struct delivery *d = received.first;
    received.first = d->next;
    delivery_free(s->broker, d);
  }
  s->received = NULL;
  s->pulling = NULL;
  s->queued_count = s->inflight_count = s->received_count = 0;
}

// [MQTT-4.4.0-1] [MQTT-4.6.0-1]: on reconnect unacknowledged PUBLISHes go out again with DUP, in
// their order and before what was queued; PUBRELs of released messages too. QoS 0 and control
// packets of the old connection are gone.
void session_requeue_inflight(struct session *s) {
  struct broker *b = s->broker;
  struct queue again = {NULL, NULL};
  struct queue released = {NULL, NULL};
  s->pulling = NULL;
  drop_queue(b, &s->out[OUT_CONTROL]);
  for (struct delivery *d = queue_pop(&s->out[OUT_QOS0]); d != NULL;
       d = queue_pop(&s->out[OUT_QOS0])) {
    s->queued_count--;
    delivery_free(b, d);
  }
  for (struct delivery *d = queue_pop(&s->inflight); d != NULL; d = queue_pop(&s->inflight)) {
    if ((d->flags & DELIVERY_RELEASED) != 0) {
      queue_push(&released, d);
    } else {
      d->flags |= DELIVERY_DUP;
      queue_push(&again, d);
      s->inflight_count--;
      s->queued_count++;
    }
  }
  s->inflight = released;
  if (again.last != NULL) {
    again.last->next = s->out[OUT_QOS12].first;
    s->out[OUT_QOS12].last = s->out[OUT_QOS12].last == NULL ? again.last : s->out[OUT_QOS12].last;
    s->out[OUT_QOS12].first = again.first;
  }
}

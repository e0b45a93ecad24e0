// SPDX-License-Identifier: Apache-2.0
// The oracle: what was published, acknowledged and is owed to whom (O1-O7 of game.h).
#include "tests/sim/game.h"

#include <stdio.h>

static struct stream *stream_of(u32 publisher, u32 kind) {
  return &game->stream[publisher][kind];
}

void model_init(void) {
  for (u32 p = 0; p < game->clients; p++) {
    for (u32 k = 0; k < KINDS; k++) {
      struct stream *s = stream_of(p, k);
      s->next = 1;
      s->qos = k == KIND_QOS0 ? 0 : k == KIND_QOS2 ? 2 : k == KIND_SHARED ? 1 + p % 2 : 1;
    }
  }
}

static bool covers(const struct client *c, u32 publisher, u32 kind) {
  const struct want *w = &c->want[kind];
  return w->used && (w->all || w->publisher == publisher);
}

static u8 effective(const struct client *c, u32 publisher, u32 kind) {
  return MIN(c->want[kind].qos, stream_of(publisher, kind)->qos);
}

u32 model_published(struct client *c, enum kind kind) {
  struct stream *s = stream_of(c->number, kind);
  u32 n = s->next++;
  s->fate[n % FATES] = FATE_SENT;
  s->resent[n % FATES] = false;
  s->got[n % FATES] = 0;
  s->will_owed[n % WILLS] = s->will_got[n % WILLS] = 0;
  sim_event((u64)c->number << 40 | (u64)kind << 32 | n);
  return n;
}

void model_resent(struct client *c, enum kind kind, u32 number) {
  struct stream *s = stream_of(c->number, kind);
  s->resent[number % FATES] |= s->qos == 1;
}
void model_acked(struct client *c, enum kind kind, u32 number) {
  struct stream *s = stream_of(c->number, kind);
  s->fate[number % FATES] = FATE_ACKED;
  s->acked = MAX(s->acked, number);
}
void model_lost(struct client *c, enum kind kind, u32 number) {
  u8 *fate = &stream_of(c->number, kind)->fate[number % FATES];
  *fate = *fate == FATE_SENT ? FATE_LOST : *fate;
}

// --- wills

// Its connection is cut: whoever is subscribed now is owed the will.
void model_will_due(struct client *c) {
  struct stream *s = stream_of(c->number, KIND_WILL);
  u32 n = c->will_number;
  if (n == 0 || c->stage != STAGE_UP || c->leaving || c->session_boot != sim_boots() ||
      s->fate[n % FATES] != FATE_SENT) {
    return;
  }
  s->fate[n % FATES] = FATE_ACKED;
  for (u32 i = 0; i < game->clients; i++) {
    struct client *other = &game->client[i];
    bool owed = other != c && game->seen[i][c->number][KIND_WILL].from != 0 &&
                effective(other, c->number, KIND_WILL) > 0;
    s->will_owed[n % WILLS] |= owed ? 1u << i : 0;
  }
}

void model_will_cancelled(struct client *c) {
  stream_of(c->number, KIND_WILL)->fate[c->will_number % FATES] = FATE_CANCELLED;
}

static void will_arrived(struct client *c, struct stream *s, const struct incoming *m) {
  if (s->fate[m->number % FATES] == FATE_CANCELLED) {
    sim_fail("O6: will %u of client %u came to client %u after DISCONNECT", m->number, m->publisher,
             c->number);
  }
  s->will_got[m->number % WILLS] |= 1u << c->number;
  sim_count(OWN_WILLS, 1);
}

// --- subscriptions

void model_subscribing(struct client *c, enum kind kind) {
  for (u32 p = 0; kind == KIND_RETAINED && p < game->clients; p++) {
    struct seen *v = &game->seen[c->number][p][kind];
    v->floor = v->floor == 0 ? stream_of(p, kind)->acked : v->floor;
  }
}

void model_subscribed(struct client *c, enum kind kind) {
  for (u32 p = 0; p < game->clients; p++) {
    struct seen *v = &game->seen[c->number][p][kind];
    if (covers(c, p, kind) && v->from == 0) {
      v->from = stream_of(p, kind)->next;
    }
  }
}

static void owed_no_more(u32 client, enum kind kind) {
  for (u32 p = 0; p < game->clients; p++) {
    game->seen[client][p][kind].from = 0;
    for (u32 i = 0; kind == KIND_WILL && i < WILLS; i++) {
      stream_of(p, kind)->will_owed[i] &= ~(1u << client);
    }
  }
}

void model_unsubscribed(struct client *c, enum kind kind) {
  owed_no_more(c->number, kind);
}

// The broker keeps nothing of this client's session: neither side of it goes on.
void model_session_gone(struct client *c) {
  c->session = false;
  memset(c->taken, 0, sizeof c->taken);
  for (u32 i = 0; i < c->flight_count; i++) {
    model_lost(c, c->flight[i].kind, c->flight[i].number);
  }
  c->flight_count = 0;
  for (u32 k = 0; k < KINDS; k++) {
    c->want[k].state = WANT_NONE;
    c->want[k].was = false;
    owed_no_more(c->number, k);
    for (u32 p = 0; p < game->clients; p++) {
      game->seen[c->number][p][k].floor = game->seen[c->number][p][k].last = 0;
    }
  }
}

// Which wills a machine that lost its power still publishes is not judged.
static void forget_wills(void) {
  for (u32 i = 0; i < game->clients; i++) {
    struct stream *s = stream_of(i, KIND_WILL);
    memset(s->will_owed, 0, sizeof s->will_owed);
    for (u32 x = 0; x < FATES; x++) {
      s->fate[x] = s->fate[x] == FATE_CANCELLED ? FATE_LOST : s->fate[x];
    }
  }
}

static void forget_all(u32 i) {
  struct client *c = &game->client[i];
  u32 n = c->flight_count;
  model_session_gone(c);
  c->flight_count = n;  // they are still in flight for the client, until it hears
  for (u32 k = 0; k < KINDS; k++) {
    struct stream *s = stream_of(i, k);
    s->acked = 0;
    for (u32 x = 0; x < FATES; x++) {
      s->fate[x] = s->fate[x] == FATE_ACKED || s->fate[x] == FATE_SENT ? FATE_LOST : s->fate[x];
    }
  }
}

void model_crashed(bool disk) {
  forget_wills();
  for (u32 i = 0; !disk && i < game->clients; i++) {
    forget_all(i);
  }
}

// --- arrivals

static void shared_arrived(struct client *c, struct stream *s, const struct incoming *m,
                           bool again) {
  u8 *got = &s->got[m->number % FATES];
  bool once = effective(c, m->publisher, KIND_SHARED) == 2;
  if (once && *got > 0) {
    sim_fail("O7: message %u of client %u's shared stream arrived twice (client %u, DUP %d)",
             m->number, m->publisher, c->number, again);
  }
  *got = 1;
  sim_count(OWN_SHARED, 1);
}

// O2: nothing that is owed lies between what came last and this.
static void check_gap(const struct client *c, const struct stream *s, const struct seen *v,
                      const struct incoming *m) {
  u32 n = MAX(v->last + 1, v->from);
  n = m->number > FATES ? MAX(n, m->number - FATES + 1) : n;
  for (; n < m->number; n++) {
    u8 fate = s->fate[n % FATES];
    if (fate != FATE_LOST && fate != FATE_NONE) {
      sim_fail("O2: client %u got message %u of stream %u/%u, but not %u before it (%s)", c->number,
               m->number, m->publisher, m->kind, n,
               fate == FATE_ACKED ? "acknowledged" : "not acknowledged");
    }
  }
}

void model_arrived(struct client *c, const struct incoming *m, bool again) {
  if (m->publisher >= game->clients || m->kind >= KINDS || !covers(c, m->publisher, m->kind) ||
      !c->want[m->kind].was) {
    sim_fail("client %u got a message of stream %u/%u, to which it has not subscribed", c->number,
             m->publisher, m->kind);
  }
  struct stream *s = stream_of(m->publisher, m->kind);
  struct seen *v = &game->seen[c->number][m->publisher][m->kind];
  u8 qos = effective(c, m->publisher, m->kind);
  if (m->number == 0 || m->number >= s->next) {
    sim_fail("client %u got message %u of stream %u/%u, which has %u", c->number, m->number,
             m->publisher, m->kind, s->next - 1);
  }
  if ((m->flags >> 1 & 3) != qos) {
    sim_fail("client %u got QoS %u, not %u (stream %u/%u)", c->number, m->flags >> 1 & 3, qos,
             m->publisher, m->kind);
  }
  sim_event((u64)c->number << 48 | (u64)m->publisher << 40 | (u64)m->kind << 32 | m->number);
  game->progress_ns = sim_now_ns();
  if (m->kind == KIND_WILL) {
    will_arrived(c, s, m);
    return;
  }
  if (m->kind == KIND_SHARED) {
    shared_arrived(c, s, m, again);
    return;
  }
  if ((m->flags & 1) != 0) {
    if (m->kind != KIND_RETAINED || m->number < v->floor) {
      sim_fail(
          "O6: client %u got retained message %u of stream %u/%u; %u was acknowledged before "
          "it subscribed",
          c->number, m->number, m->publisher, m->kind, v->floor);
    }
    sim_count(OWN_RETAINED, 1);
    return;
  }
  if (m->number <= v->last) {
    bool may = qos < 2 && (s->resent[m->number % FATES] || (qos == 1 && again));
    if (!may) {
      sim_fail("%s: client %u got message %u of stream %u/%u after %u (QoS %u, DUP %d)",
               qos == 2 ? "O3" : "O1", c->number, m->number, m->publisher, m->kind, v->last, qos,
               again);
    }
    sim_count(OWN_REPEATED, 1);
    return;
  }
  if (v->from != 0 && qos > 0) {
    check_gap(c, s, v, m);
  }
  v->last = m->number;
}

// --- at the end

u32 model_lag(u32 publisher, enum kind kind) {
  const struct stream *s = stream_of(publisher, kind);
  u32 lag = 0;
  for (u32 i = 0; i < game->clients; i++) {
    const struct seen *v = &game->seen[i][publisher][kind];
    if (v->from != 0) {
      lag = MAX(lag, s->next - MAX(v->from, v->last + 1));
    }
  }
  return lag;
}

static const char *open_stream(u32 p, u32 k) {
  static char text[160];
  struct stream *s = stream_of(p, k);
  u32 first = s->next > FATES ? s->next - FATES + 1 : 1;
  for (u32 i = 0; i < game->clients && k != KIND_WILL && k != KIND_SHARED; i++) {
    const struct seen *v = &game->seen[i][p][k];
    bool owed = v->from != 0 && effective(&game->client[i], p, k) > 0;
    for (u32 n = MAX(MAX(v->last + 1, v->from), first); owed && n < s->next; n++) {
      if (s->fate[n % FATES] == FATE_ACKED) {
        snprintf(text, sizeof text, "O2: client %u never got message %u of stream %u/%u", i, n, p,
                 k);
        return text;
      }
    }
  }
  for (u32 n = s->next > WILLS ? s->next - WILLS + 1 : 1; k == KIND_WILL && n < s->next; n++) {
    u32 missing = s->will_owed[n % WILLS] & ~s->will_got[n % WILLS];
    if (missing != 0) {
      snprintf(text, sizeof text, "O6: will %u of client %u never came to client %u", n, p,
               (u32)__builtin_ctz(missing));
      return text;
    }
  }
  bool members = false;
  for (u32 i = 0; i < game->clients; i++) {
    members |= game->seen[i][p][KIND_SHARED].from != 0;
  }
  u32 from = 0;  // owed once the first member was there
  for (u32 i = 0; i < game->clients; i++) {
    u32 f = game->seen[i][p][KIND_SHARED].from;
    from = f != 0 && (from == 0 || f < from) ? f : from;
  }
  for (u32 n = MAX(from, first); k == KIND_SHARED && members && n < s->next; n++) {
    if (s->fate[n % FATES] == FATE_ACKED && s->got[n % FATES] == 0) {
      snprintf(text, sizeof text, "O7: message %u of client %u's shared stream went to nobody", n,
               p);
      return text;
    }
  }
  return NULL;
}

const char *model_open(void) {
  for (u32 p = 0; p < game->clients; p++) {
    if (!client_idle_flight(&game->client[p])) {
      static char text[160];
      const struct client *c = &game->client[p];
      const struct flight *f = &c->flight[0];
      snprintf(text, sizeof text,
               "client %u still waits: %u in flight (first: packet identifier %u, message %u of "
               "stream %u/%u, state %d), %u bytes not sent",
               p, c->flight_count, f->packet_id, f->number, p, f->kind, f->state, c->out_len);
      return text;
    }
    for (u32 k = 0; k < KINDS; k++) {
      const char *why = open_stream(p, k);
      if (why != NULL) {
        return why;
      }
    }
  }
  return NULL;
}

// SPDX-License-Identifier: Apache-2.0
// Proves of the takeover of a session from core A to core B (src/broker/cross_takeover.c): every
// message that any core publishes meanwhile reaches the session once, in the order of its
// publisher, none is lost and none doubled. Core X publishes, and so do A and B themselves.
// B enters the filter's set of cores, waits until every core has seen it, and asks each for a
// marker; a core puts its marker into its rings to A and to B at one point of its own stream: what
// went before it is A's, what comes behind is B's. A ships the session when it has all markers.
// Order at B: what A shipped, then what B kept.
//   -DBUG_EARLY    the markers are asked for before every core has seen the change
//   -DBUG_SHIP     A ships without waiting for the markers
//   -DBUG_ONE_END  the marker goes to A only: B takes all it gets
#define A 0
#define B 1
#define X 2
// of each core
#define MESSAGES(i) (i == X -> 2 : 1)
#define MARKER 99
#define ASK 98

bit in_set;         // B is in the filter's set (A always was)
bit observed[3];    // the core's view of it
bit seen[3];        // it has ended a turn since
chan ring_a[3] = [4] of { byte };  // from each core to A, to B
chan ring_b[3] = [4] of { byte };
chan ask[3] = [1] of { byte };
byte next[3];       // of each publisher: the number of the session's next message
chan tail_a = [8] of { byte, byte };  // frozen on A
chan kept_b = [8] of { byte, byte };
bit shipped, opened;
byte markers_a;

inline deliver(from, number) {
  assert(number == next[from]);
  next[from]++
}

proctype publisher(byte i) {
  byte sent, what;
  bit marked;
  do
  :: atomic { sent < MESSAGES(i) ->
       ring_a[i]!sent;
       if :: observed[i] -> ring_b[i]!sent :: else fi;
       sent++
     }
  :: atomic { in_set && !seen[i] -> observed[i] = 1; seen[i] = 1 }  // the next turn
  :: atomic { ask[i]?what ->
#ifndef BUG_ONE_END
       ring_b[i]!MARKER;
#endif
       ring_a[i]!MARKER; marked = 1
     }
  :: sent == MESSAGES(i) && marked && seen[i] -> break
  od
}

inline take_a(who) {
  if
  :: what == MARKER -> cut[who] = 1; markers_a++
  :: what != MARKER && cut[who]   // it is B's
  :: else -> tail_a!who,what
  fi
}

proctype core_a() {
  byte what;
  bit cut[3];
  do
  :: atomic { ring_a[A]?what -> take_a(A) }
  :: atomic { ring_a[B]?what -> take_a(B) }
  :: atomic { ring_a[X]?what -> take_a(X) }
#ifdef BUG_SHIP
  :: markers_a < 3 && markers_a > 0 -> break
#endif
  :: markers_a == 3 -> break
  od;
  shipped = 1;
end:
  do
  :: ring_a[A]?what
  :: ring_a[B]?what
  :: ring_a[X]?what
  od
}

inline take_b(who) {
  if
  :: what == MARKER -> cut[who] = 1
  :: what != MARKER && !cut[who]  // it is A's
  :: what != MARKER && cut[who] && opened -> deliver(who, what)
  :: else -> kept_b!who,what
  fi
}

proctype core_b() {
  byte i, what;
  bit cut[3];
  in_set = 1;
#ifndef BUG_EARLY
  seen[A] && seen[B] && seen[X];
#endif
  ask[A]!ASK; ask[B]!ASK; ask[X]!ASK;
#ifdef BUG_ONE_END
  cut[A] = 1; cut[B] = 1; cut[X] = 1;
#endif
end:
  do
  :: atomic { ring_b[A]?what -> take_b(A) }
  :: atomic { ring_b[B]?what -> take_b(B) }
  :: atomic { ring_b[X]?what -> take_b(X) }
  :: atomic { shipped && !opened -> opened = 1;
       do
       :: tail_a?i,what -> deliver(i, what)
       :: empty(tail_a) -> break
       od;
       do
       :: kept_b?i,what -> deliver(i, what)
       :: empty(kept_b) -> break
       od
     }
  od
}

init { atomic { run publisher(A); run publisher(B); run publisher(X); run core_a(); run core_b() } }

active proctype monitor() {
end: timeout -> assert(next[A] == 1 && next[B] == 1 && next[X] == 2)
}

package conformance

import (
	"time"

	"github.com/weirflow/weir/persistence/driver"
)

func expiry() law {
	return law{
		layer: driverLayer, name: "law05_expiry",
		text: "An expired record is absent on every read path at once, satisfies IfAbsent and fails IfTag.",
		cases: []testCase{
			{"gone_at_the_millisecond", goneAtTheMillisecond},
			{"gone_on_every_read_path", goneEverywhere},
			{"expired_satisfies_if_absent", expiredIsAbsent},
			{"expired_fails_if_tag", expiredFailsIfTag},
			{"nothing_of_the_dead_remains", nothingRemains},
			{"in_the_past_is_absent_at_once", pastIsAbsent},
			{"a_later_write_changes_it", laterWriteChangesIt},
			{"each_record_has_its_own", eachItsOwn},
			{"the_time_comes_back", expiryComesBack},
		},
	}
}

// goneAtTheMillisecond needs a clock that stands still; without one it demands that a record
// is there in the first half of its life.
func goneAtTheMillisecond(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	r := aHead(1)
	r.ExpireAt = c.soon()
	c.put(d, k, r, driver.Condition{})
	if !c.h.has(InjectedClock) {
		half := time.Now().Add(time.Until(r.ExpireAt) / 2)
		if _, err := d.Get(c.ctx, k); err != nil && time.Now().Before(half) {
			c.Errorf("Get in the first half of the record's life: %v", err)
		}
		c.expire(r.ExpireAt)
		c.wantAbsent(d, k, "after its expiry")
		return
	}
	for _, at := range []time.Duration{-time.Minute, -time.Second, -2 * time.Millisecond, -time.Millisecond} {
		c.clock.set(r.ExpireAt.Add(at))
		if _, err := d.Get(c.ctx, k); err != nil {
			c.Errorf("Get %v before the expiry: %v", -at, err)
		}
	}
	for _, at := range []time.Duration{0, time.Millisecond, 999 * time.Millisecond, time.Second, 24 * time.Hour, 50 * 365 * 24 * time.Hour} {
		c.clock.set(r.ExpireAt.Add(at))
		c.wantAbsent(d, k, at.String()+" after the expiry")
	}
}

func goneEverywhere(c *caseRun) {
	d := c.open()
	at := c.soon()
	p, alone, onlySiblings := c.id("f"), c.id("alone"), c.id("siblings")
	mortal, lasting := aHead(1), aSibling(2)
	mortal.ExpireAt = at
	mortalSibling := driver.Record{Data: []byte("mortal"), ExpireAt: at}
	for _, k := range []driver.Key{p.Head(), alone.Head()} {
		c.put(d, k, mortal, driver.Condition{})
	}
	for _, k := range []driver.Key{p.Sibling("b"), p.Sibling("d"), onlySiblings.Sibling("b")} {
		c.put(d, k, mortalSibling, driver.Condition{})
	}
	c.put(d, p.Sibling("a"), lasting, driver.Condition{})
	c.put(d, p.Sibling("c"), lasting, driver.Condition{})
	c.expire(at)
	for _, k := range []driver.Key{p.Head(), alone.Head(), p.Sibling("b"), p.Sibling("d"), onlySiblings.Sibling("b")} {
		c.wantAbsent(d, k, "after its expiry")
	}
	for _, o := range []driver.RangeOptions{{}, {KeysOnly: true}, {From: "b"}, {To: "d"}, {From: "b", To: "c"}} {
		c.wantSorts(d, p, o, inRange([]string{"a", "c"}, o))
	}
	c.wantSorts(d, p, driver.RangeOptions{Reverse: true}, []string{"c", "a"})
	c.wantSorts(d, onlySiblings, driver.RangeOptions{}, nil)
	listed := c.list(d)
	if e, ok := listed[p]; !ok || !e.Headless || e.Method != "" || !e.SavedAt.IsZero() || !e.ExpireAt.IsZero() {
		c.Errorf("Partitions lists a partition with an expired head as %+v (listed: %t), want a headless entry", e, ok)
	}
	for _, gone := range []driver.Partition{alone, onlySiblings} {
		if _, ok := listed[gone]; ok {
			c.Errorf("Partitions lists %q, of which everything has expired", gone)
		}
	}
}

func expiredIsAbsent(c *caseRun) {
	d := c.open()
	for _, k := range []driver.Key{c.id("f").Head(), c.id("f").Sibling("s")} {
		r := aRecord(k, 1)
		r.ExpireAt = c.soon()
		c.put(d, k, r, driver.Condition{})
		if c.h.has(InjectedClock) { // real time could pass in between
			_, err := d.Put(c.ctx, k, aRecord(k, 2), driver.IfAbsent())
			c.wantConflict(err, "Put on \"must not exist\" before the expiry", k, &r)
		}
		c.expire(r.ExpireAt)
		c.want(d, k, c.put(d, k, aRecord(k, 3), driver.IfAbsent()), aRecord(k, 3))
	}
}

func expiredFailsIfTag(c *caseRun) {
	d := c.open()
	for _, k := range []driver.Key{c.id("f").Head(), c.id("f").Sibling("s")} {
		r := aRecord(k, 1)
		r.ExpireAt = c.soon()
		tag := c.put(d, k, r, driver.Condition{})
		c.expire(r.ExpireAt)
		_, err := d.Put(c.ctx, k, aRecord(k, 2), driver.IfTag(tag))
		c.wantConflict(err, "Put on the tag of an expired record", k, nil)
		c.wantConflict(d.Delete(c.ctx, k, driver.IfTag(tag)), "Delete on the tag of an expired record", k, nil)
		c.wantAbsent(d, k, "after its expiry")
		c.remove(d, k) // no condition: no error
	}
}

// nothingRemains writes less over an expired record: no field of the dead may shine through.
func nothingRemains(c *caseRun) {
	d := c.open()
	k := c.id("f").Head()
	r := aHead(1)
	r.ExpireAt = c.soon()
	c.put(d, k, r, driver.Condition{})
	c.expire(r.ExpireAt)
	fresh := driver.Record{Data: []byte("fresh")}
	c.put(d, k, fresh, driver.Condition{})
	c.want(d, k, "", fresh)
	c.expire(c.soon())
	c.want(d, k, "", fresh)
}

func pastIsAbsent(c *caseRun) {
	d := c.open()
	now := c.clock.Now()
	for name, at := range map[string]time.Time{
		"a second ago":        now.Add(-time.Second).Add(-c.skew()),
		"a year ago":          now.AddDate(-1, 0, 0),
		"the Unix epoch":      time.Unix(0, 0),
		"before the epoch":    time.Unix(-1000, 0),
		"one ms after epoch":  time.UnixMilli(1),
		"one ms before epoch": time.UnixMilli(-1),
	} {
		k := c.id(name).Head()
		r := aHead(1)
		r.ExpireAt = at
		tag, err := d.Put(c.ctx, k, r, driver.Condition{})
		if err != nil {
			c.Errorf("Put of a record that expired at %s failed: %v", name, err)
			continue
		}
		c.wantAbsent(d, k, "expired at "+name)
		_, err = d.Put(c.ctx, k, r, driver.IfTag(tag))
		c.wantConflict(err, "Put on the tag of a record that expired at "+name, k, nil)
		c.put(d, k, aHead(2), driver.Condition{})
		c.put(d, k, r, driver.Condition{})
		c.wantAbsent(d, k, "a living record written over by one that expired at "+name)
	}
	if n := len(c.list(d)); n != 0 {
		c.Errorf("Partitions lists %d partitions of which everything has expired", n)
	}
}

func laterWriteChangesIt(c *caseRun) {
	d := c.open()
	at := c.soon()
	never, later := c.id("never").Head(), c.id("later").Head()
	mortal, longer := aHead(1), aHead(2)
	mortal.ExpireAt, longer.ExpireAt = at, at.Add(24*time.Hour)
	c.put(d, never, mortal, driver.Condition{})
	c.put(d, later, mortal, driver.Condition{})
	c.put(d, never, aHead(2), driver.Condition{})
	c.put(d, later, longer, driver.Condition{})
	c.expire(at)
	c.want(d, never, "", aHead(2))
	c.want(d, later, "", longer)
}

func eachItsOwn(c *caseRun) {
	d := c.open()
	at := c.soon()
	a, b := c.id("mortal head"), c.id("mortal sibling")
	head, sibling := aHead(1), aSibling(1)
	head.ExpireAt, sibling.ExpireAt = at, at
	c.put(d, a.Sibling("s"), aSibling(1), driver.Condition{})
	c.put(d, a.Head(), head, driver.Condition{})
	c.put(d, b.Head(), aHead(1), driver.Condition{})
	c.put(d, b.Sibling("s"), sibling, driver.Condition{})
	c.put(d, b.Sibling("t"), aSibling(2), driver.Condition{})
	c.expire(at)
	c.wantAbsent(d, a.Head(), "after its expiry")
	c.want(d, a.Sibling("s"), "", aSibling(1))
	c.want(d, b.Head(), "", aHead(1))
	c.wantAbsent(d, b.Sibling("s"), "after its expiry")
	c.want(d, b.Sibling("t"), "", aSibling(2))
}

func expiryComesBack(c *caseRun) {
	d := c.open()
	now := c.clock.Now()
	for name, at := range map[string]time.Time{
		"whole milliseconds": now.Add(time.Hour).Truncate(time.Second).Add(7 * time.Millisecond),
		"odd milliseconds":   now.Add(time.Hour).Truncate(time.Second).Add(999 * time.Millisecond),
		"another zone":       now.Add(time.Hour).Truncate(time.Second).Add(123 * time.Millisecond).In(time.FixedZone("x", -9*3600)),
		"nanoseconds":        now.Add(time.Hour).Truncate(time.Second).Add(1_234_567),
		"far away":           time.Date(2399, 12, 31, 23, 59, 59, 999_000_000, time.UTC),
	} {
		p := c.id(name)
		r, s := aHead(1), aSibling(1)
		r.ExpireAt, s.ExpireAt = at, at
		c.put(d, p.Head(), r, driver.Condition{})
		c.put(d, p.Sibling("s"), s, driver.Condition{})
		c.want(d, p.Head(), "", r)
		c.want(d, p.Sibling("s"), "", s)
		for _, got := range c.siblings(d, p, driver.RangeOptions{KeysOnly: true}) {
			if err := sameTime(got.ExpireAt, at, time.Millisecond); err != nil {
				c.Errorf("%s: in Range ExpireAt %v", name, err)
			}
		}
		if e := c.list(d)[p]; sameTime(e.ExpireAt, at, time.Millisecond) != nil {
			c.Errorf("%s: in Partitions ExpireAt is %v, was %v", name, e.ExpireAt, at)
		}
	}
}

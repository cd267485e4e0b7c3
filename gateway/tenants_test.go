package gateway_test

import (
	"encoding/json"
	"testing"
)

func TestTwoTenantsShareNothing(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mail", "hot", "put", "wire"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			w, a := oneReplica(t)
			for _, headers := range [][]string{nil, {"Idempotency-Key: k"}} {
				w.services.answer(answer(200, `{"for":"acme"}`))
				one := a.as(acme, tool, body(), headers...)
				w.services.answer(answer(200, `{"for":"globex"}`))
				two := a.as(globex, tool, body(), headers...)
				mine, theirs := parseReceipt(t, one.body), parseReceipt(t, two.body)
				if *mine.Key == *theirs.Key || mine.Tenant != "acme" || theirs.Tenant != "globex" || mine.Replayed || theirs.Replayed {
					t.Errorf("%s\n%s", one.body, two.body)
				}
				if tool != "wire" && (string(mine.Outcome.Body) != `{"for":"acme"}` || string(theirs.Outcome.Body) != `{"for":"globex"}`) {
					t.Errorf("%s\n%s", one.body, two.body)
				}
				// Another tenant's mismatch is no mismatch.
				a.as(globex, tool, body("run_id", `"only globex"`, "args", `{"id":1,"memo":"x"}`))
				a.as(acme, tool, body("run_id", `"only globex"`, "args", `{"id":2,"memo":"y"}`))

				for _, server := range []string{a.agents.URL, a.operators.URL} {
					path := server + "/v1/receipts/" + *mine.Key
					a.do("GET", path, acme, "").read(mine.Status)
					for _, url := range []string{path, path + "?wait=5", path + "/attempts"} {
						got := a.do("GET", url, globex, "")
						got.hides("acme", "run", "mail")
						if got.code != 404 {
							t.Errorf("HTTP %d: %s", got.code, got.body)
						}
					}
				}
			}
		})
	}
}

type page struct {
	Receipts []json.RawMessage `json:"receipts"`
	Next     string            `json:"next_cursor"`
}

// list reads one page and returns its receipts' keys.
func (r reply) list() (keys []string, next string) {
	r.Helper()
	var p page
	if err := json.Unmarshal(r.body, &p); err != nil || r.code != 200 {
		r.Fatalf("HTTP %d, %v: %s", r.code, err, r.body)
	}
	r.headers(map[string]string{"Content-Type": "application/json"})
	for _, raw := range p.Receipts {
		keys = append(keys, *parseReceipt(r.TB, raw).Key)
	}
	return keys, p.Next
}

func TestListShowsOnlyOwn(t *testing.T) {
	t.Parallel()
	_, a := oneReplica(t)
	own := *a.as(acme, "mail", body()).completed().Key
	theirs := *a.as(globex, "mail", body()).completed().Key
	for _, q := range []string{"", "?run_id=run", "?q=" + theirs, "?q=run", "?tool=mail&step_id=1&status=completed"} {
		if keys, _ := a.do("GET", a.operators.URL+"/v1/receipts"+q, globex, "").list(); len(keys) != 1 || keys[0] != theirs {
			t.Errorf("globex %s: %v", q, keys)
		}
	}
	if keys, _ := a.get("/v1/receipts").list(); len(keys) != 1 || keys[0] != own {
		t.Errorf("acme: %v", keys)
	}
	if keys, _ := a.get("/v1/receipts?q=" + theirs).list(); len(keys) != 0 {
		t.Errorf("acme, looking for another's key: %v", keys)
	}
}

// Who may do what, on which listener.
func TestRoles(t *testing.T) {
	t.Parallel()
	w, a := oneReplica(t)
	key := *a.call("mail", `{"id":1}`).completed().Key
	reads := []string{"/v1/receipts", "/v1/receipts/" + key, "/v1/receipts/" + key + "/attempts", "/v1/tools"}
	for _, server := range []string{a.agents.URL, a.operators.URL} {
		for _, path := range reads {
			for _, credential := range []string{acme, viewer, operator} {
				if got := a.do("GET", server+path, credential, ""); got.code != 200 {
					t.Errorf("%s as %s: HTTP %d: %s", path, credential, got.code, got.body)
				}
			}
			for _, headers := range [][]string{
				{"Authorization: -"},
				{"Authorization: "},
				{"Authorization: " + acme},
				{"Authorization: Basic " + acme},
				{"Authorization: Bearer"},
				{"Authorization: Bearer nobody"},
				{"Authorization: Bearer  " + acme},
				{"Authorization: Bearer " + acme + "x"},
				{"Authorization: Bearer " + acme, "Authorization: Bearer " + acme},
				{"Authorization: Bearer " + acme, "Authorization: Bearer nobody"},
			} {
				got := a.do("GET", server+path, acme, "", headers...)
				got.problem(401, "unauthenticated", "corrected")
				got.headers(map[string]string{"Www-Authenticate": `Bearer realm="latchkey"`})
				got.hides("nobody", acme, "mail")
			}
		}
	}
	for _, credential := range []string{viewer, operator} {
		for _, tool := range []string{"mail", "search", "nothing"} {
			a.as(credential, tool, body("run_id", `"other"`)).problem(403, "forbidden", "corrected")
		}
	}
	a.as("", "mail", body("run_id", `"other"`)).problem(401, "unauthenticated", "corrected")
	a.as("nobody", "nothing", "{").problem(401, "unauthenticated", "corrected")
	// The operators' listener takes no calls, from nobody.
	for _, credential := range []string{acme, operator, globex} {
		a.do("POST", a.operators.URL+"/v1/tools/mail/calls", credential, body("run_id", `"other"`)).problem(404, "not_found", "corrected")
	}
	w.untouched(1, 1)
	if n := w.services.read(); n != 0 {
		t.Errorf("%d reads", n)
	}
	if log := w.log.String(); len(log) == 0 {
		t.Error("nothing was logged")
	}
}

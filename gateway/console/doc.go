// Package console is where people see what the gateway knows and decide what it cannot: the
// pages under /console on the operators' listener.
//
// # How it is safe
//
//   - Everything that was stored (arguments, results, reasons, ids) reaches a page through
//     html/template as text. There is no template.HTML in this package and no inline script
//     or style, so the Content-Security-Policy allows neither. Characters that do not show or
//     that reorder text are written as escapes: what is approved is what is seen.
//   - A session is a sealed cookie that holds the API key itself (session.go). Every request
//     authenticates that key again, so a removed key ends its sessions, on every replica.
//   - A POST must come from a page of this host (http.CrossOriginProtection) and from a key
//     with the role operator. It carries the version that the person saw; a receipt that has
//     moved on since is shown as it is now, and nothing is done.
//
// # How it reads
//
// Every page is complete without script: reading, deciding, bulk progress. The one script
// (static/console.js) listens to /console/events, fetches the same page again and replaces
// what changed in place. It never moves or adds a row by itself: it says how many there are.
//
// A handler collects what a page shows into a plain struct and hands it to a template of the
// same name. Sentences about a receipt are in words.go, exact JSON in exact.go, the drawn time
// axis in timeline.go, the plots in plot.go.
package console

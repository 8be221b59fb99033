// Keeps the page up to date: the server sends which elements have changed, and
// how, as [id, attribute, value]; without an attribute the value is the text.
"use strict";

const status = document.getElementById("live");
const show = (text, live) => {
	if (status.textContent === text) return; // or a screen reader would say it again
	status.textContent = text;
	status.className = live ? "live" : "";
};

// A hand goes forward only, also from the last slot of a ring to the first.
const forward = (hand, value) => {
	const angle = parseFloat(value.slice("rotate(".length));
	let turned = hand.turned ?? parseFloat(hand.getAttribute("transform").slice("rotate(".length));
	turned += (((angle - turned) % 360) + 360) % 360;
	hand.turned = turned;
	hand.style.transform = `rotate(${turned}deg)`;
};

const apply = ([id, attr, value]) => {
	const element = document.getElementById(id);
	if (element === null) return;
	if (attr === "") element.textContent = value;
	else if (attr === "transform") forward(element, value);
	else if (value === "") element.removeAttribute(attr);
	else element.setAttribute(attr, value);
};

// What the pointer is on is said below the picture, where a finger does not hide
// it, and kept up to date like the rest.
let pointed = null;
const say = () => {
	if (pointed === null) return;
	const picture = pointed.closest("figure");
	picture.querySelector(".pointed").textContent = pointed.querySelector("title").textContent;
};
document.addEventListener("pointerover", (event) => {
	const slot = event.target.closest(".slot");
	if (slot !== null) pointed = slot;
	say();
});

const events = new EventSource(document.body.dataset.events);
events.onmessage = (event) => {
	show("Live", true);
	JSON.parse(event.data).forEach(apply);
	say();
};
events.onerror = () => show(events.readyState === EventSource.CLOSED ? "Not live: reload for newer numbers" : "Connection lost, trying again", false);
